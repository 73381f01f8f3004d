"""Runs the tests of ``SELECTED`` with PySpark 4.2 in an environment of its own
(``tools.pyspark_release``); the other tests have the newest release.

Every call that kwire makes of PySpark is among them: DataFrame functions, the Kafka source, the
Python data source with streams and filters, and tables, with this release also in Delta.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.interop.clients import missing
from tests.shared import needs_shared
from tools import pyspark_release
from tools.spark_jars import DELTA_FOR

pytestmark = [needs_shared, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parent.parent.parent
RELEASE = DELTA_FOR
SELECTED = (
    "tests/kwire/spark/test_release.py",
    "tests/kwire/spark/source/test_data_source.py",
    "tests/kwire/spark/test_frames.py::test_every_record_type_decoded",
    "tests/kwire/spark/test_frames.py::test_typed_columns_are_ready_for_sql[PartitionRecord]",
    "tests/kwire/spark/test_frames.py::test_filters_run_in_the_jvm_and_lose_nothing_damaged",
    "tests/kwire/spark/test_frames.py::test_damaged_values_are_rows_unless_fail_fast",
    "tests/interop/test_spark.py::test_batch_reads_the_whole_topic[from-a-snapshot-subscribe]",
    "tests/interop/test_spark.py::test_available_now_reads_the_whole_topic[from-a-snapshot-assign]",
    "tests/interop/test_spark.py::test_micro_batch_that_failed_is_repeated",
    "tests/interop/test_spark.py::test_decoded_columns_equal_kafka_dump_log[from-a-snapshot]",
    "tests/interop/test_spark_source.py::test_batch_equals_kafka_dump_log",
    "tests/interop/test_spark_source.py::test_pushed_filters_give_the_filtered_rows",
    "tests/interop/test_spark_source.py::test_checkpoint_of_another_log_is_refused",
    "tests/interop/test_spark_source.py::test_files_equal_kafka_dump_log[p-one-segments-7]",
)
#: A process of its own, because a session cannot be given other jars.
DELTA = ("tests/interop/spark_delta.py",)


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and the PySpark that is in it."""

    python: str
    pyspark: str

    def passes(self, tests: Sequence[str], into: Path) -> None:
        """Run ``tests`` here. Fails where one of them fails, and skips, if that is allowed, where
        one of them does.
        """
        report, began = into / "report.xml", time.monotonic()
        command = [
            self.python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            f"--basetemp={into / 'tmp'}",
        ]
        run = subprocess.run(
            [*command, *tests],
            cwd=ROOT,
            env=_environ(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert run.returncode == 0, (
            f"with PySpark {self.pyspark}:\n{run.stdout[-20_000:]}\n{run.stderr[-5_000:]}"
        )
        cases = list(ElementTree.parse(report).iter("testcase"))
        if skipped := {str(one.get("message")) for case in cases for one in case.iter("skipped")}:
            missing(f"with PySpark {self.pyspark}: {'; '.join(sorted(skipped))}")
        assert len(cases) >= len(tests)
        print(f"PySpark {self.pyspark}: {len(cases)} tests in {time.monotonic() - began:.0f} s")


def _environ() -> dict[str, str]:
    """This process's environment without a named Spark. Python workers find kwire by its path,
    because it is not installed there.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "SPARK_HOME" and not name.startswith("PYSPARK_")
    }
    return {**kept, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="session")
def environment() -> Environment:
    if shutil.which("java") is None:
        missing("there is no Java on the PATH")
    try:
        python = str(pyspark_release.environment(RELEASE))
    except pyspark_release.InstallError as error:
        missing(f"an environment with PySpark {RELEASE} cannot be made: {error}")
    ask = [python, "-c", "import pyspark; print(pyspark.__version__)"]
    version = subprocess.run(
        ask, env=_environ(), capture_output=True, text=True, check=True
    ).stdout.strip()
    assert version.startswith(f"{RELEASE}.")
    return Environment(python, version)


def test_calls_of_pyspark_run_with_this_release(environment: Environment, tmp_path: Path) -> None:
    environment.passes(SELECTED, tmp_path)


def test_tables_are_written_to_delta_with_this_release(
    environment: Environment, tmp_path: Path
) -> None:
    environment.passes(DELTA, tmp_path)
