"""The fleet's tables as Iceberg, with the newest PySpark that Iceberg is built for, in an
environment of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.jars.table_formats import NEWEST
from tests.interop.spark_release import environment
from tests.interop.test_spark_fleet_delta import FLEET
from tests.shared import needs_shared

pytestmark = [needs_shared, pytest.mark.timeout(900)]


def test_tables_of_the_fleet_are_right_as_iceberg(tmp_path: Path) -> None:
    environment(NEWEST["iceberg"]).passes(FLEET, tmp_path)
