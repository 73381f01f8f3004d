"""Runs the tests of ``spark_delta`` with the newest PySpark that Delta is built for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.spark_release import environment
from tests.shared import needs_shared

pytestmark = [needs_shared, pytest.mark.timeout(900)]

#: A process of its own, because a session cannot be given other jars.
DELTA = ("tests/interop/spark_delta.py",)


def test_tables_are_written_to_delta_with_this_release(tmp_path: Path) -> None:
    environment().passes(DELTA, tmp_path)
