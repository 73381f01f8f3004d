"""Compares the histories of the fleet's tables with the image at random offsets of any logs:
``python -m tests.interop.fleet_offsets DIRECTORY_OF_A_LOG...``.

The tests do this with logs that are read in seconds; this is for larger ones. The tables are of the
format that runs with the PySpark of this Python; ``python -m tools.pyspark_release 4.1`` prints
another one. The result is a line of JSON, and the exit status is 1 for a difference.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from kwire.jars.table_formats import format_of
from kwire.spark.fleet import keep, register, session
from tests.interop.fleet_truth import Truth, differences
from tools.log_servers import log_servers


@click.command(epilog="Example: python -m tests.interop.fleet_offsets p-large/nodes/1")
@click.argument("logs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--offsets", default=100, show_default=True, help="Of each log.")
@click.option("--seed", default=1, show_default=True, help="Which offsets.")
def main(logs: Sequence[Path], offsets: int, seed: int) -> None:
    """Keep tables of the clusters whose log directories are LOGS, and compare them."""
    choose, found = random.Random(seed), [Truth(log) for log in logs]
    ends = {one.cluster_id: one.chosen_ends(choose, offsets) for one in found}
    spark = session(conf={"spark.ui.enabled": "false", "spark.driver.memory": "4g"})
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="kwire-fleet-offsets-") as where:
        with log_servers(*logs) as addresses:
            told = keep(spark, {f"c{n}": one for n, one in enumerate(addresses)}, where)
        register(spark, where)
        different = [
            f"{log}: {view} at {end}" for log, end, view in differences(spark, found, ends)
        ]
    spark.stop()
    report = {
        "format": format_of(),
        "records": sum(one.records for one in told),
        "offsets": sum(map(len, ends.values())),
        "different": different,
    }
    print(json.dumps(report))
    sys.exit(bool(different) or any(one.condition != "OK" for one in told))


if __name__ == "__main__":
    main()
