"""Runs the tests of ``SELECTED`` with PySpark 4.2 in an environment of its own
(``tools.pyspark_release``); the other tests have the newest release.

Every call that kwire makes of PySpark is among them: DataFrame functions, the Kafka source, the
Python data source with streams and filters, and tables.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.spark_release import environment
from tests.shared import needs_shared

pytestmark = [needs_shared, pytest.mark.timeout(900)]

SELECTED = (
    "tests/kwire/spark/test_release.py",
    "tests/kwire/spark/source/test_data_source.py",
    "tests/kwire/spark/test_frames.py::test_every_record_type_decoded",
    "tests/kwire/spark/test_frames.py::test_typed_columns_are_ready_for_sql[PartitionRecord]",
    "tests/kwire/spark/test_frames.py::test_filters_run_in_the_jvm_and_lose_nothing_damaged",
    "tests/kwire/spark/test_frames.py::test_damaged_values_are_rows_unless_fail_fast",
    "tests/interop/test_spark.py::test_batch_reads_the_whole_topic[from-a-snapshot-subscribe]",
    "tests/interop/test_spark.py::test_micro_batch_that_failed_is_repeated",
    "tests/interop/test_spark.py::test_decoded_columns_equal_kafka_dump_log[from-a-snapshot]",
    "tests/interop/test_spark_source.py::test_batch_equals_kafka_dump_log",
    "tests/interop/test_spark_source.py::test_pushed_filters_give_the_filtered_rows",
    "tests/interop/test_spark_source.py::test_checkpoint_of_another_log_is_refused",
    "tests/interop/test_spark_source.py::test_files_equal_kafka_dump_log[p-one-segments-7]",
    "tests/interop/test_spark_tables.py::test_running_stream_has_new_records_in_its_tables",
    "tests/interop/test_spark_tables.py::"
    "test_tables_in_spark_are_the_rows_of_the_files[p-quorum-101]",
)


def test_calls_of_pyspark_run_with_this_release(tmp_path: Path) -> None:
    environment().passes(SELECTED, tmp_path)
