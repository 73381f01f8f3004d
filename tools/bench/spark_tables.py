"""Measures tables of the metadata topic (``kwire.spark.tables``): a log directory to all tables,
and a job on them, by part; and commits with many partitions present (``table_commits``).

Each log has a driver of its own, as ``kwire spark`` has, so that Spark's start and the first job of
a session are measured as a user has them. The logs are a small one, ``p-large``, and ``p-large``
with as many changes of its partitions behind it as make ``KWIRE_BENCH_RECORDS`` records (136,000 by
default, which is ``p-large`` itself). Times are wall seconds; the processor time of the driver's
Python is beside them, because it is what a busy machine changes least.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kwire.cluster import Loader
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.records import Record, decode_metadata_record, encode_batch, encode_metadata_record
from tools.bench import largelog, table_commits
from tools.bench.driver import measured_by

RECORDS: Final = int(os.environ.get("KWIRE_BENCH_RECORDS", "136000"))
_SMALL: Final = "p-one-basic"
_PARTITION: Final = "__cluster_metadata-0"
_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_TIMEOUT_S: Final = 1800
_BATCH: Final = 100
#: Seconds beyond Spark's start: of a job on tables that are there, of a small log, and of p-large;
#: and seconds for a million records, Spark's start included.
_JOB_S, _SMALL_S, _LARGE_S, _MILLION_S = 3.0, 3.0, 6.0, 40.0
_PARTS: Final = ("read", "fold", "write", "wait")


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason if the bench cannot run."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        return [{"what": "spark tables", "ok": False, "notes": f"not measured: {error}"}]
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch:
        try:
            logs = list(_logs(Path(scratch)))
        except largelog.NoLog as error:
            return [{"what": "spark tables", "ok": False, "notes": f"not measured: {error}"}]
        found = [
            row
            for n, log in enumerate(logs)
            for row in _rows(_driven(log / _PARTITION, Path(scratch) / f"tables-{n}"))
        ]
        return [*found, *table_commits.rows(Path(scratch) / "commits")]


def _logs(scratch: Path) -> Iterator[Path]:
    yield largelog.unpack(scratch, _SMALL)
    large = largelog.unpack(scratch)
    yield large
    found = lengthened(large, scratch / "long", RECORDS)
    if found is not None:
        yield found


def lengthened(large: Path, into: Path, wanted: int) -> Path | None:
    """``large`` with changes of ISR and leader behind it, up to ``wanted`` records; None if these
    are there already.
    """
    from kwire.spark.table.directory import directory_rows

    loader, count, now = Loader(), 0, 0
    for row in itertools.chain.from_iterable(directory_rows(str(large / _PARTITION))):
        record = decode_metadata_record(row.value or b"")[2]
        loader.load(record, row.offset, -1)
        count, now = count + 1, row.timestamp
    if count >= wanted:
        return None
    partitions = [one for some in loader.image.partitions.values() for one in some.values()]
    values = itertools.cycle(
        encode_metadata_record(_change(one, alone), 0)
        for alone in (True, False)
        for one in partitions
    )
    shutil.copytree(large, into, ignore=shutil.ignore_patterns("*index", "*.checkpoint"))
    at = loader.image.next_offset
    with (into / _PARTITION / f"{0:020d}.log").open("ab") as segment:
        while count < wanted:
            some = itertools.islice(values, min(_BATCH, wanted - count))
            records = [
                Record(offset=at + n, timestamp=now + n, key=None, value=value)
                for n, value in enumerate(some)
            ]
            segment.write(encode_batch(records, partition_leader_epoch=1))
            at, now, count = at + len(records), now + len(records), count + len(records)
    return into


def _change(partition: Any, alone: bool) -> PartitionChangeRecord:
    """The leader is left alone in the ISR, or all replicas join it."""
    isr = partition.replicas[:1] if alone else partition.replicas
    return PartitionChangeRecord(
        partition_id=partition.partition_id, topic_id=partition.topic_id, isr=isr, leader=isr[0]
    )


def _driven(log: Path, tables: Path) -> dict[str, Any]:
    """The measurements of a driver that builds ``tables`` of ``log``."""
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    module, places = "tools.bench.spark_tables", (str(log), str(tables))
    return measured_by(module, *places, timeout_s=_TIMEOUT_S, PYTHONPATH=path)


def _rows(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    records, build = found["records"], found["build"]
    long = records > 500_000
    limit = _MILLION_S * records / 1e6 if long else _SMALL_S if records < 10_000 else _LARGE_S
    took = build + found["start"] if long else build
    said = f"{took:.1f} s {'with' if long else 'beyond'} Spark's start, at most {limit:.0f}: "
    parts = {name: found[name] for name in _PARTS}
    parts["other"] = build - sum(parts.values())
    yield {
        "what": f"a log of {records:,} records to all tables",
        "unit": "records/s",
        "kwire": records / build,
        "ok": took < limit,
        "notes": (
            said
            + ", ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items())
            + f"; processor {found['cpu']:.1f} s, of other processes {found['others']:.1f};"
            f" Spark's start {found['start']:.1f} s; Python {found['python']:,} MiB, another one"
            f" {found['other_python']:,} MiB, JVM {found['jvm']:,} MiB"
        ),
    }
    yield {
        "what": f"a first job on tables of {records:,} records",
        "unit": "s",
        "kwire": found["job"],
        "ok": found["job"] < _JOB_S,
        "notes": (
            f"beyond Spark's start, at most {_JOB_S:.0f}; processor {found['job_cpu']:.1f} s;"
            f" updating the tables before it {found['again']:.2f} s"
        ),
    }
    yield {
        "what": f"decode of {records:,} records beside it",
        "unit": "records/s",
        "kwire": records / found["decode"],
        "notes": 'format("kwire") into the noop sink, a second pass',
    }


# --- the driver
# --------------------------------------------------------------------------------------------------


def drive(log: str, path: str) -> dict[str, Any]:
    """Build the tables of ``log`` at ``path``, and measure it. One call in a process."""
    began = time.perf_counter()
    spark = _session()
    spark.range(9).count()
    spent: dict[str, float] = {"start": time.perf_counter() - began, **dict.fromkeys(_PARTS, 0.0)}
    from kwire.spark import register
    from kwire.spark.jobs import JOBS
    from kwire.spark.table import build
    from kwire.spark.table import log as logs
    from kwire.spark.table.fold import Fold
    from kwire.spark.table.pieces import Pieces
    from kwire.spark.table.store import Store

    for owner, name, part in (
        (Fold, "take", "fold"),
        (Store, "add", "write"),
        (Store, "write", "write"),
        (Store, "commit", "write"),
        (Pieces, "files", "wait"),
    ):
        setattr(owner, name, _timed(getattr(owner, name), part, spent))
    module: Any = logs
    module.directory_rows = _each_timed(module.directory_rows, "read", spent)
    for part, call in (
        ("build", lambda: build.tables(spark, log, path)),
        ("again", lambda: build.tables(spark, log, path)),
        ("job", lambda: JOBS["topics"](spark, path).collect()),
    ):
        began, cpu, jvm = time.perf_counter(), time.process_time(), _cpu_s(_jvm(spark))
        call()
        spent[part] = time.perf_counter() - began
        spent[f"{part}_cpu"] = time.process_time() - cpu + _cpu_s(_jvm(spark)) - jvm
        if part == "build":
            parts = {name: spent[name] for name in _PARTS} | _of_processes(spark)
            parts["cpu"] = time.process_time() - cpu
    register(spark)
    rows = spark.read.format("kwire").load(log)
    for _ in range(2):
        began = time.perf_counter()
        rows.write.format("noop").mode("overwrite").save()
        spent["decode"] = time.perf_counter() - began
    records = build.read_table(spark, path, "load").selectExpr("sum(records)").collect()[0][0]
    spark.stop()
    return {**spent, **parts, "records": records}


def _session() -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from kwire.spark.local import SETTINGS

    spark = SparkSession.builder.master("local[*]").config(map=SETTINGS).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _timed(call: Callable[..., Any], part: str, spent: dict[str, float]) -> Callable[..., Any]:
    """``call`` with its time added to ``part``, once for a call within another one of it."""

    def timed(*given: Any, **named: Any) -> Any:
        began, before = time.perf_counter(), spent[part]
        try:
            return call(*given, **named)
        finally:
            spent[part] = before + time.perf_counter() - began

    return timed


def _each_timed(call: Callable[..., Any], part: str, spent: dict[str, float]) -> Any:
    """The same for an iterator: the time in which its items are made."""

    def timed(*given: Any) -> Iterator[Any]:
        items = iter(call(*given))
        following = _timed(lambda: next(items, None), part, spent)
        while (item := following()) is not None:
            yield item

    return timed


def _of_processes(spark: Any) -> dict[str, float]:
    """The processor time of processes that have ended, and the peaks of memory (MiB)."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "others": ended.ru_utime + ended.ru_stime,
        "other_python": ended.ru_maxrss // 1024,
        "python": _peak_mib("self"),
        "jvm": _peak_mib(_jvm(spark)),
    }


def _cpu_s(pid: str) -> float:
    """The processor time of a process, 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _jvm(spark: Any) -> str:
    return str(spark.sparkContext._gateway.proc.pid)


def _peak_mib(pid: str) -> int:
    """The peak of resident memory of a process, 0 where the system does not tell."""
    if pid == "self":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM")),
        0,
    )


if __name__ == "__main__":
    print(json.dumps(drive(*sys.argv[1:])))
