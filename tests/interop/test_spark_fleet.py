"""The fleet's tables with each release of PySpark that has a table format with MERGE, in an
environment of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.jars.table_formats import FORMATS
from tests.interop.spark_release import environment
from tests.shared import needs_shared

pytestmark = [needs_shared, pytest.mark.timeout(900)]

FLEET = ("tests/interop/spark_fleet.py",)


@pytest.mark.parametrize("release", FORMATS)
def test_tables_of_the_fleet_with_this_release(release: str, tmp_path: Path) -> None:
    environment(release).passes(FLEET, tmp_path)
