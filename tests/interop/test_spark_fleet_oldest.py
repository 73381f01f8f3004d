"""The fleet's tables with the oldest PySpark that a table format with MERGE runs with, in an
environment of its own: what they have at every offset, and gaps.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.jars.table_formats import FORMATS
from tests.interop.spark_release import environment
from tests.interop.test_spark_fleet_delta import FLEET
from tests.shared import needs_shared

pytestmark = [needs_shared, pytest.mark.timeout(900)]

_TESTS = (
    "test_tables_of_many_live_clusters_are_the_images_at_every_offset",
    "test_gaps_are_told_or_repaired",
)


def test_tables_of_the_fleet_are_right_with_the_oldest_release(tmp_path: Path) -> None:
    [file], oldest = FLEET, next(iter(FORMATS))
    environment(oldest).passes([f"{file}::{name}" for name in _TESTS], tmp_path)
