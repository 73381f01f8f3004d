"""The fleet's tables as Delta, with the newest PySpark that Delta is built for, in an environment
of its own. ``test_spark_fleet_iceberg`` has the other format: two files, so that both run at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.spark_release import RELEASE, environment
from tests.shared import needs_shared

pytestmark = [needs_shared, pytest.mark.timeout(900)]

FLEET = ("tests/interop/spark_fleet.py",)


def test_tables_of_the_fleet_are_right_as_delta(tmp_path: Path) -> None:
    environment(RELEASE).passes(FLEET, tmp_path)
