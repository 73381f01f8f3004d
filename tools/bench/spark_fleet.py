"""Measures the tables of many clusters (``kwire.spark.fleet``): a first round of 20 clusters with
one and with two cores of Spark, and a round of 100 changes with 101,000 and with 1,000,000
partitions present, and a compaction behind it.

Each measurement is a driver of its own, with the PySpark that the format runs with: the first
rounds with Delta, the changes with each. Spark's own cost, its start and an empty round, is a row,
and in none of the others. Processor time is that of the driver's JVM and Python, without the
servers'. ``KWIRE_BENCH_FLEET`` divides all sizes.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.topic_record import TopicRecord
from kwire.records import Record, encode_batch, encode_metadata_record
from kwire.uuid import Uuid
from tools.bench.driver import measured_by
from tools.log_servers import log_servers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kwire.message import Message
    from kwire.spark.fleet.place import Format

CLUSTERS, RECORDS = 20, 100_000
PRESENT: Final = (101_000, 1_000_000)
CHANGES: Final = 100
_BROKERS, _FACTOR, _PER_TOPIC, _BATCH = 30, 3, 100, 1_000
#: Rounds of changes: the first ones find a cold JVM, and are not counted.
_WARM, _COUNTED = 2, 5
#: The gain of a second core, and the most that ten times the partitions may cost.
_GAIN, _GROWTH = 1.7, 2.0
_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_PARTITION: Final = "__cluster_metadata-0"
_START_S: Final = 1200.0
_TIMEOUT_S: Final = 7200
_EPOCH_MS: Final = 1_700_000_000_000


class ChangingLog:
    """A log directory of a cluster with ``partitions`` partitions; changes come at ``end``."""

    def __init__(self, directory: Path, partitions: int, end: int = 0) -> None:
        """Make the log unless ``end`` says that it is there."""
        self.directory, self.partitions, self.end = directory, partitions, end
        self._segment = directory / _PARTITION / f"{0:020d}.log"
        self._random = random.Random(f"{directory.name} {end}")
        if not end:
            self._segment.parent.mkdir(parents=True)
            id = Uuid(self._random.randbytes(16))
            (directory / "meta.properties").write_text(f"version=1\ncluster.id={id}\nnode.id=1\n")
            self._append(self._present())

    def change(self, count: int) -> None:
        """Append ``count`` changes of leaders, of random partitions."""
        numbers = self._random.sample(range(self.partitions), min(count, self.partitions))
        self._append(
            PartitionChangeRecord(
                topic_id=_topic_id(number // _PER_TOPIC),
                partition_id=number % _PER_TOPIC,
                leader=self._random.randrange(_BROKERS),
            )
            for number in numbers
        )

    def _present(self) -> Iterator[Message]:
        yield FeatureLevelRecord(name="metadata.version", feature_level=25)
        for number in range(self.partitions):
            topic, index = divmod(number, _PER_TOPIC)
            if not index:
                yield TopicRecord(name=f"topic-{topic}", topic_id=_topic_id(topic))
            replicas = self._random.sample(range(_BROKERS), _FACTOR)
            yield PartitionRecord(
                topic_id=_topic_id(topic),
                partition_id=index,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[Uuid(bytes(15) + b"\1")] * _FACTOR,
            )

    def _append(self, messages: Iterator[Message]) -> None:
        values = (encode_metadata_record(one, one.VERSIONS[-1]) for one in messages)
        with self._segment.open("ab") as segment:
            while some := list(itertools.islice(values, _BATCH)):
                records = [
                    Record(offset=self.end + n, timestamp=_EPOCH_MS + n, key=None, value=value)
                    for n, value in enumerate(some)
                ]
                segment.write(encode_batch(records, partition_leader_epoch=1))
                self.end += len(some)


def _topic_id(number: int) -> Uuid:
    return Uuid((number + 1).to_bytes(16, "big"))


def run() -> Iterator[dict[str, Any]]:
    """Yield the rows as they are measured; one with the reason if the bench cannot run."""
    from kwire.jars.maven import MavenError
    from kwire.jars.table_formats import NEWEST
    from tools.pyspark_release import InstallError, environment

    divisor = int(os.environ.get("KWIRE_BENCH_FLEET", "1"))
    try:
        drivers = {format: driven(str(environment(release))) for format, release in NEWEST.items()}
        with tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch:
            yield from rows(Path(scratch), drivers, divisor)
    except (InstallError, MavenError, RuntimeError) as error:
        yield {"what": "spark fleet", "ok": False, "notes": f"not measured: {error}"}


#: Runs a measurement, by its name, in a driver with so many cores, and returns its figures.
Driver = Callable[[str, int, Mapping[str, Any]], Mapping[str, Any]]


def rows(
    scratch: Path, drivers: Mapping[str, Driver], divisor: int = 1
) -> Iterator[dict[str, Any]]:
    """The rows of the bench, with sizes divided by ``divisor``. ``drivers`` are by table format."""
    yield from _first_rounds(scratch, drivers["delta"], CLUSTERS, RECORDS // divisor)
    for format in sorted(drivers):
        present = [partitions // divisor for partitions in PRESENT]
        yield from changes_rows(scratch, format, drivers[format], present)


def _first_rounds(
    scratch: Path, drive: Driver, clusters: int, records: int
) -> Iterator[dict[str, Any]]:
    logs = [ChangingLog(scratch / f"cluster-{n}", records * 100 // 101) for n in range(clusters)]
    with log_servers(*(one.directory for one in logs), timeout_s=_START_S) as addresses:
        found = {
            cores: drive(
                "first_round", cores, {"servers": addresses, "where": f"{scratch}/first-{cores}"}
            )
            for cores in (1, 2)
        }
    one, two = found[1], found[2]
    yield {
        "what": "Spark's start, and a round of a fleet without news",
        "unit": "s",
        "kwire": two["start"] + two["nothing"],
        "notes": f"start {two['start']:.1f} s, the round {two['nothing']:.1f} s; processor time of"
        f" the start {two['start_cpu']:.1f} s, of the round {two['nothing_cpu']:.1f} s",
    }
    gain = one["wall"] / two["wall"]
    yield {
        "what": f"{clusters} clusters of {records:,} records, every view, two cores",
        "unit": "records/s",
        "kwire": two["records"] / two["wall"],
        "peer": "one core",
        "peer_value": one["records"] / one["wall"],
        "ratio": gain,
        "bar": _GAIN,
        "notes": f"{two['records']:,} records of views; {two['wall']:.1f} s, processor"
        f" {two['cpu']:.1f} s; with one core {one['wall']:.1f} s, processor {one['cpu']:.1f} s",
    }


def changes_rows(
    scratch: Path, format: str, drive: Driver, present: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """The rows of rounds of changes in one format."""
    found = []
    for partitions in present:
        log = ChangingLog(scratch / f"{format}-{partitions}", partitions)
        with log_servers(log.directory, timeout_s=_START_S) as [address]:
            given = {
                "server": address,
                "where": f"{scratch}/{format}-{partitions}-tables",
                "log": str(log.directory),
                "partitions": partitions,
                "end": log.end,
            }
            found.append(drive("changes", 2, given))
        cpu = found[-1]["cpu"]
        growth = cpu / found[0]["cpu"]
        yield {
            "what": f"{format}: a round of {CHANGES} changes, {partitions:,} partitions present",
            "unit": "s (p50)",
            "kwire": cpu,
            **({"ok": growth <= _GROWTH} if len(found) > 1 else {}),
            "notes": f"processor time; {found[-1]['wall']:.1f} s; {found[-1]['mib']:.1f} MiB are"
            f" written; a compaction takes {found[-1]['compacting']:.1f} s and writes"
            f" {found[-1]['compacted_mib']:.1f} MiB; {_BROKERS} brokers, factor {_FACTOR}"
            + (f"; {growth:.2f} times the row before, at most {_GROWTH:.0f}" * (len(found) > 1)),
        }


def driven(python: str, module: str = "tools.bench.spark_fleet") -> Driver:
    """Return what runs a measurement of ``module`` in a process of ``python``. It raises
    RuntimeError.
    """

    def drive(what: str, cores: int, given: Mapping[str, Any]) -> Mapping[str, Any]:
        return measured_by(
            module,
            what,
            str(cores),
            json.dumps(given),
            timeout_s=_TIMEOUT_S,
            python=python,
            PYTHONPATH=str(_ROOT),
            SPARK_LOCAL_IP="127.0.0.1",
        )

    return drive


# --- the driver
# --------------------------------------------------------------------------------------------------


def first_round(
    spark: SparkSession, given: Mapping[str, Any], views: Sequence[str] = ()
) -> Iterator[tuple[str, float]]:
    """Yield the figures of a first round, and of one without news behind it."""
    from kwire.spark.fleet import keep
    from kwire.spark.fleet.views import VIEWS

    clusters = {f"c{number}": one for number, one in enumerate(given["servers"])}
    wanted = tuple(views) or tuple(VIEWS)
    with measured(spark) as took:
        told = keep(spark, clusters, given["where"], views=wanted)
    yield from took.items()
    yield "records", sum(one.records for one in told)
    with measured(spark) as took:
        told = keep(spark, clusters, given["where"], views=wanted)
    if failed := [one for one in told if one.records or one.condition != "OK"]:
        raise RuntimeError(f"a round without news: {failed}")
    yield "nothing", took["wall"]
    yield "nothing_cpu", took["cpu"]


def changes(
    spark: SparkSession,
    given: Mapping[str, Any],
    views: Sequence[str] = (),
    rounds: tuple[int, int] = (_WARM, _COUNTED),
) -> Iterator[tuple[str, float]]:
    """Yield the figures of a round of changes: medians, behind the first ones; the records that all
    rounds of changes read; and what it costs to compact the tables behind them.
    """
    from kwire.jars.table_formats import format_of
    from kwire.spark.fleet.place import Place
    from kwire.spark.fleet.rounds import Rounds
    from kwire.spark.fleet.tables import Tables
    from kwire.spark.fleet.views import VIEWS

    log = ChangingLog(Path(given["log"]), given["partitions"], given["end"])
    options = {"x": {"kafka.bootstrap.servers": given["server"]}}
    wanted = [VIEWS[name] for name in views or VIEWS]
    place = Place(given["where"], cast("Format", format_of()))
    # No round compacts by chance: what that costs is measured behind them.
    job = Rounds(spark, options, place, wanted, "fail", merges=sys.maxsize)
    job.round()
    found, records = [], 0
    for number in range(sum(rounds)):
        log.change(CHANGES)
        _wait_for(options["x"], log.end, [view.name for view in wanted])
        before = size_of(given["where"])
        with measured(spark) as took:
            [told] = job.round()
        if told.condition != "OK":
            raise RuntimeError(f"a round of changes: {told}")
        records += told.records
        if number >= rounds[0]:
            found.append({**took, "mib": (size_of(given["where"]) - before) / (1 << 20)})
    for name in found[0]:
        yield name, statistics.median(one[name] for one in found)
    yield "records", records
    before, tables = size_of(given["where"]), Tables(spark, place, merges=1)
    for view in wanted:
        tables.merged(view, [told.cluster_id])
    with measured(spark) as took:
        tables.compact(wanted)
    yield "compacting", took["cpu"]
    yield "compacted_mib", (size_of(given["where"]) - before) / (1 << 20)


def _wait_for(options: Mapping[str, str], end: int, views: Sequence[str]) -> None:
    """Return when the server has the log up to ``end``. Raises RuntimeError."""
    from kwire.cluster.view_offsets import at
    from kwire.spark.fleet.probe import ask

    deadline = time.monotonic() + _START_S
    while ask(options, {}, views).end < at(end):
        if time.monotonic() > deadline:
            raise RuntimeError("the server does not get the changes")
        time.sleep(0.1)


def size_of(where: str) -> int:
    """All bytes of the tables; a format deletes none of its own accord."""
    return sum(one.stat().st_size for one in Path(where).rglob("*") if one.is_file())


@contextmanager
def measured(spark: SparkSession) -> Iterator[dict[str, float]]:
    """Fill in the wall and processor seconds of the block: the JVM's and this process's."""
    found: dict[str, float] = {}
    began, cpu = time.perf_counter(), _cpu_s(spark)
    yield found
    found["wall"], found["cpu"] = time.perf_counter() - began, _cpu_s(spark) - cpu


def _cpu_s(spark: Any) -> float:
    from tools.bench.spark_tables import _cpu_s as of_process
    from tools.bench.spark_tables import _jvm

    return time.process_time() + of_process(_jvm(spark))


def main(what: str, cores: str, given: str) -> None:
    """Run a measurement, and print its figures."""
    from kwire.spark.fleet import session

    began = time.perf_counter()
    conf = {"spark.master": f"local[{cores}]", "spark.driver.memory": "4g"}
    spark = session(conf=conf)
    spark.range(9).count()
    found = {"start": time.perf_counter() - began, "start_cpu": _cpu_s(spark)}
    found.update({"first_round": first_round, "changes": changes}[what](spark, json.loads(given)))
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
