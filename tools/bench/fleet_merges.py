"""Measures what a ``MERGE`` of 100 changed partitions into a state of the fleet's tables costs, by
the size of the state: with rows that are marked as replaced, as ``kwire.spark.fleet`` makes its
states, and with files that are rewritten, as both formats do by default.

The states are filled by Spark itself, so a million partitions take a minute and no server. The
figure is the processor time of the driver's JVM and Python, and what the files grow by. In a round
of the fleet there are three merges more, into tables where older files are not read; the bench
spark-fleet measures the round. ``KWIRE_BENCH_FLEET`` divides the sizes.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tools.bench.spark_fleet import CHANGES, PRESENT, driven, measured, size_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kwire.spark.fleet.place import Format
    from kwire.spark.fleet.views import View

#: Merges into each state: the first ones find a cold JVM, and are not counted.
_WARM, _COUNTED = 2, 5
_PER_TOPIC: Final = 100
_BROKERS: Final = "array(pmod(hash(id, 1), 30), pmod(hash(id, 2), 30), pmod(hash(id, 3), 30))"
#: Columns of a partition by its number ``id`` and an offset ``at``; others are null.
_VALUES: Final = {
    "cluster_id": "'c'",
    "topic": f"concat('topic-', id DIV {_PER_TOPIC})",
    "topicId": f"lpad(id DIV {_PER_TOPIC}, 22, 'A')",
    "partition": f"id % {_PER_TOPIC}",
    "replicas": _BROKERS,
    "isr": _BROKERS,
    "directories": "array_repeat(repeat('A', 22), 3)",
    "leader": "pmod(hash(id, at), 30)",
    "leaderEpoch": "at DIV 10000000",
    "partitionEpoch": "at DIV 10000000",
    "generation": "0",
    "offset": "at",
    "timestamp": "timestamp_millis(1700000000000 + at)",
    "deleted": "false",
    "origin": "'change'",
}


def run() -> Iterator[dict[str, Any]]:
    """Yield the rows, by format and size; one with the reason if the bench cannot run."""
    from kwire.jars.maven import MavenError
    from kwire.jars.table_formats import NEWEST
    from tools.pyspark_release import InstallError, environment

    sizes = [size // int(os.environ.get("KWIRE_BENCH_FLEET", "1")) for size in PRESENT]
    try:
        for format, release in NEWEST.items():
            drive = driven(str(environment(release)), "tools.bench.fleet_merges")
            with tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch:
                yield from rows(format, drive("merges", 2, {"where": scratch, "sizes": sizes}))
    except (InstallError, MavenError, RuntimeError) as error:
        yield {"what": "fleet merges", "ok": False, "notes": f"not measured: {error}"}


def rows(format: str, found: Mapping[str, Sequence[float]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a format. ``found`` has by size the least processor time and the MiB of a
    merge, with marks and then without.
    """
    for size, (cpu, mib, rewriting_cpu, rewriting_mib) in found.items():
        yield {
            "what": f"{format}: MERGE of {CHANGES} rows into a state of {int(size):,}",
            "unit": "s",
            "kwire": cpu,
            "peer": "files rewritten",
            "peer_value": rewriting_cpu,
            "ratio": rewriting_cpu / cpu,
            "notes": f"processor time, least of {_COUNTED}; {mib:.2f} MiB are written, and"
            f" {rewriting_mib:.2f} where files are rewritten",
        }


def merges(
    spark: SparkSession, where: Path, format: Format, sizes: Sequence[int]
) -> dict[str, list[float]]:
    """Return the figures of :func:`rows`. Merges of all states take turns."""
    from kwire.spark.fleet import sql
    from kwire.spark.fleet.place import OF_STATES, Place
    from kwire.spark.fleet.views import VIEWS

    view, states = VIEWS["partitions"], {}
    for size in sizes:
        for marks in (True, False):
            place = Place(f"{where}/{size}-{marks}", format)
            place.prepare(spark)
            table, properties = place.table("state"), OF_STATES[format] if marks else {}
            spark.sql(sql.create(table, view.columns, format, "bench", properties=properties))
            query = _rows(view, f"SELECT id, id AS at FROM range(0, {size}, 1, 1)")
            spark.sql(sql.insert(view, table, f"({query})"))
            states[size, marks] = (table, place.where, list[tuple[float, float]]())
    choose = random.Random(1)
    for number in range(1, 1 + _WARM + _COUNTED):
        for (size, _), (table, directory, figures) in states.items():
            changed = [
                (one, 10_000_000 * number + one) for one in choose.sample(range(size), CHANGES)
            ]
            values = sql.values((("id", "BIGINT"), ("at", "BIGINT")), changed)
            spark.sql(sql.view("changed", _rows(view, values)))
            before = size_of(directory)
            with measured(spark) as took:
                spark.sql(sql.merge_state(view, table, "changed", ["c"]))
            figures.append((took["cpu"], (size_of(directory) - before) / (1 << 20)))
    found: dict[str, list[float]] = {}
    for (size, _), (_, _, figures) in states.items():
        found.setdefault(str(size), []).extend(min(figures[_WARM:]))
    return found


def _rows(view: View, numbers: str) -> str:
    """The query for partitions, by a query for columns ``id`` and ``at``."""
    columns = (f"CAST({_VALUES.get(n, 'NULL')} AS {t}) AS {n}" for n, t in view.columns)
    return f"SELECT {', '.join(columns)} FROM ({numbers})"


def main(_: str, cores: str, given: str) -> None:
    """Run the measurement, and print its figures."""
    from kwire.jars.table_formats import format_of
    from kwire.spark.fleet import session

    options = json.loads(given)
    spark = session(conf={"spark.master": f"local[{cores}]", "spark.driver.memory": "4g"})
    format = cast("Format", format_of())
    print(json.dumps(merges(spark, Path(options["where"]), format, options["sizes"])))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
