"""The fleet's tables on a standalone cluster of Spark whose driver, executor and worker are killed
while they are merged. ``KWIRE_SPARK_CLUSTER_KILLS`` sets another number of kills.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

from kwire.jars.maven import MavenError
from kwire.jars.table_formats import NEWEST, format_jars
from tests.interop.clients import missing
from tests.interop.spark_release import environment
from tests.shared import needs_shared
from tools.fleet_kills import KILLED, compare_after_kills

pytestmark = needs_shared

KILLS = int(os.environ.get("KWIRE_SPARK_CLUSTER_KILLS", "3"))


def test_tables_have_each_record_once_after_kills_of_driver_executor_and_worker(
    logs: Any, tmp_path: Path
) -> None:
    try:
        format_jars("iceberg", environment(NEWEST["iceberg"]).pyspark)
    except MavenError as error:
        missing(f"the jars are not to be had: {error}")
    log = logs("p-one-basic") / "nodes" / "1"
    report = compare_after_kills(
        [log], tmp_path, KILLS, "iceberg", ["topics"], random.Random("kill -9")
    )
    print(report)
    assert report["faults"] == []
    each = Counter(KILLED[number % len(KILLED)] for number in range(KILLS))
    assert {what: report["kills"].get(what) for what in each} == each
