"""The jobs over the tables of a quorum's log agree with counts of its changes; ``kwire spark``
and its page run.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from gateway.cli import main
from gateway.cli.spark import JOBS as COMMANDS
from kwire.spark import read_table, tables
from kwire.spark.jobs import JOBS
from kwire.spark.jobs_svg import picture
from kwire.spark.table.fold import Fold
from kwire.spark.table.rows import Change
from tests.kwire.spark.session import spark_session
from tests.kwire.spark.table.metadata_copies import RECORDS, image_of, write_copy
from tests.kwire.spark.table_rows import rows_of
from tests.shared import needs_shared
from tools.gateway_process import gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = needs_shared

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "spark-tables.md"


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session(kafka=False)


class Built:
    """Tables of a log, and its changes."""

    def __init__(self, spark: SparkSession, directory: Path, path: Path) -> None:
        self.spark, self.path = spark, str(path)
        tables(spark, str(directory), self.path)
        fold = Fold()
        self.rows = rows_of(directory)
        fold.take(self.rows)
        self.changes = fold.folded.changes
        self._answers: dict[str, list[dict[str, Any]]] = {}

    def job(self, name: str) -> list[dict[str, Any]]:
        """The rows of a job, which runs once for all tests."""
        if name not in self._answers:
            rows = JOBS[name](self.spark, self.path).collect()
            self._answers[name] = [row.asDict(recursive=True) for row in rows]
        return self._answers[name]

    def both(self, entity: str) -> list[tuple[Change, Any, Any]]:
        """Changes of one kind that have a before and an after."""
        found = [
            (c, json.loads(c.before or "null"), json.loads(c.after or "null"))
            for c in self.changes
            if c.entity == entity
        ]
        return [one for one in found if one[1] and one[2]]


@pytest.fixture(scope="module")
def built(spark: SparkSession, logs: Any, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(
        spark,
        logs("p-quorum") / "nodes" / "2" / "__cluster_metadata-0",
        tmp_path_factory.mktemp("tables"),
    )


def test_isr_and_flapping_jobs_agree_with_the_changes(built: Built) -> None:
    moved = [
        (c.offset, was["isr"], now["isr"])
        for c, was, now in built.both("partition")
        if was["isr"] != now["isr"]
    ]
    found = built.job("isr")
    assert len(moved) > 20 and [row["offset"] for row in found] == [offset for offset, *_ in moved]
    for row, (_, was, now) in zip(found, moved, strict=True):
        assert (set(row["left"]), set(row["joined"]), row["isr"]) == (
            set(was) - set(now),
            set(now) - set(was),
            now,
        )
        assert row["event"] == (
            "shrink" if not row["joined"] else "change" if row["left"] else "expand"
        )
    left, joined = Counter[int](), Counter[int]()
    for row in built.job("flapping"):
        left[row["broker"]] += row["left"]
        joined[row["broker"]] += row["joined"]
        assert row["flaps"] == min(row["left"], row["joined"])
    assert left == Counter(one for row in found for one in row["left"])
    assert joined == Counter(one for row in found for one in row["joined"])


def test_leaders_job_counts_the_moves(built: Built) -> None:
    moves = [
        (was["leader"], now["leader"])
        for _, was, now in built.both("partition")
        if was["leader"] != now["leader"]
    ]
    found = built.job("leaders")
    assert sum(row["moves"] for row in found) == len(moves) > 20
    assert sum(row["toNone"] for row in found) == sum(now == -1 for _, now in moves)
    assert sum(row["toAnotherBroker"] for row in found) == sum(-1 not in move for move in moves)


def test_configs_and_security_jobs_list_every_change(built: Built) -> None:
    found = built.job("configs")
    said = [c for c in built.changes if c.entity == "config"]
    assert sorted(row["offset"] for row in found) == [c.offset for c in said] and len(said) > 20
    values = {(c.offset, c.n): json.loads(c.after or '{"value": null}')["value"] for c in said}
    assert sorted(str(row["after"]) for row in found) == sorted(map(str, values.values()))
    security = built.job("security")
    assert len(security) == sum(c.entity in ("acl", "user", "token") for c in built.changes) > 10
    assert all(row["who"] for row in security)


def test_topics_job_has_partitions_and_lifetimes(built: Built) -> None:
    made = {c.key: c for c in built.changes if c.entity == "topic" and c.op == "set"}
    gone = {c.key: c for c in built.changes if c.entity == "topic" and c.op == "delete"}
    partitions = Counter(
        c.key.split(":")[0] for c in built.changes if c.entity == "partition" and c.before is None
    )
    found = {row["topicId"]: row for row in built.job("topics")}
    assert found.keys() == made.keys() and gone
    for key, row in found.items():
        assert (row["partitions"], row["deleted"] is None) == (partitions[key], key not in gone)
        seconds = (gone[key].timestamp - made[key].timestamp) / 1000 if key in gone else None
        assert row["seconds"] == seconds
        assert row["shortLived"] == (seconds is not None and seconds < 3600)


def test_reassignments_job_has_a_span_for_each_reassignment(built: Built) -> None:
    """A span for each time that a partition began to have replicas that come or go."""
    moving, begun, ended = set[str](), 0, 0
    for change in built.changes:
        if change.entity == "partition":
            now = json.loads(change.after or "{}")
            is_moving = bool(now.get("addingReplicas") or now.get("removingReplicas"))
            begun += is_moving and change.key not in moving
            ended += not is_moving and change.key in moving
            (moving.add if is_moving else moving.discard)(change.key)
    found = built.job("reassignments")
    assert begun > 0
    assert (len(found), sum(row["ended"] is not None for row in found)) == (begun, ended)
    finished = [row for row in found if row["to"]]
    assert finished and all(row["seconds"] >= 0 and row["from"] != row["to"] for row in finished)


def test_brokers_job_has_the_states_of_each_broker(built: Built) -> None:
    found = built.job("brokers")
    assert {row["id"] for row in found} == {
        int(c.key) for c in built.changes if c.entity == "broker"
    }
    for before, after in pairwise(found):
        if before["id"] == after["id"]:
            assert before["until"] is not None and before["until"] <= after["since"]
            assert (before["epoch"], before["state"]) != (after["epoch"], after["state"]) or before[
                "until"
            ] < after["since"]
    open_now = {row["id"]: row["state"] for row in found if row["until"] is None}
    now = read_table(built.spark, built.path, "brokers").collect()
    assert open_now == {
        row.id: "shutting down"
        if row.inControlledShutdown
        else "fenced"
        if row.fenced
        else "active"
        for row in now
    }


def test_load_job_counts_all_records_and_bytes(built: Built) -> None:
    found = built.job("load")
    assert sum(row["records"] for row in found) == len(built.rows)
    assert sum(row["bytes"] for row in found) == sum(len(row.value or b"") for row in built.rows)


@pytest.mark.parametrize("name", JOBS)
def test_picture_of_a_job_is_svg_with_bars(built: Built, name: str) -> None:
    rows = built.job(name)
    root = ElementTree.fromstring(picture(name, rows))
    assert root.tag.endswith("svg") and float(root.attrib["height"]) > 40
    assert sum(one.tag.endswith("rect") for one in root.iter()) > 0


def test_kwire_spark_prints_rows_pictures_and_refusals(
    built: Built, logs: Any, tmp_path: Path
) -> None:
    assert list(COMMANDS) == list(JOBS)
    svg = tmp_path / "a.svg"
    result = CliRunner().invoke(main, ["spark", "topics", built.path, "--svg", str(svg)])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert (result.exit_code, len(lines)) == (0, len(built.job("topics")))
    assert re.fullmatch(
        r"20\d\d-\d\d-\d\dT[\d:.]+Z", lines[0]["created"]
    ) and svg.read_text().startswith("<svg")
    log, kept = str(logs("p-one-basic") / "nodes" / "1"), str(tmp_path / "kept")
    text = CliRunner().invoke(main, ["spark", "brokers", log, "--tables", kept, "-o", "text"])
    assert text.exit_code == 0 and "shutting down" in text.stdout and "until" in text.stdout
    assert CliRunner().invoke(main, ["spark", "load", kept]).exit_code == 0
    for arguments, sentence in (
        (["topics", "nowhere"], "'nowhere' is neither a directory nor HOST:PORT"),
        (["topics", str(tmp_path)], "no segments of a metadata log are there"),
        (["topics", kept, "--tables", str(tmp_path / "b")], "already has tables"),
        (["weather", kept], "there is no job 'weather'; there are isr, flapping"),
        (["topcs", kept], "there is no job 'topcs'; did you mean topics?"),
        (["topics", kept, log], "asks one log: several clusters are kept by kwire spark fleet"),
    ):
        result = CliRunner().invoke(main, ["spark", *arguments])
        assert result.exit_code != 0 and sentence in result.output, result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["127.0.0.1:1"], "127.0.0.1:1 (PLAINTEXT): cannot connect: Connection refused"),
        (["127.0.0.1:1", "--tables", "s3a://bucket/x"], "tables at s3a: are kept by kwire spark"),
        (["/no/such/directory"], "'/no/such/directory' is neither a directory nor HOST:PORT"),
    ],
)
def test_kwire_spark_says_what_cannot_be_before_spark_starts(
    arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started() -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("gateway.cli.spark._session", started)
    result = CliRunner().invoke(main, ["spark", "topics", *arguments])
    assert result.exit_code in (1, 2) and sentence in result.output, result.output
    assert "Traceback" not in result.output


def test_kwire_spark_repairs_tables_on_request(spark: SparkSession, tmp_path: Path) -> None:
    kept, log = str(tmp_path / "kept"), str(write_copy(tmp_path / "log", RECORDS, end=80))
    command = ["spark", "topics", log, "--tables", kept]
    assert CliRunner().invoke(main, command).exit_code == 0
    write_copy(tmp_path / "log", RECORDS, since=120)
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1 and "kwire spark --on-gap resync" in result.output
    assert CliRunner().invoke(main, [*command, "--on-gap", "resync"]).exit_code == 0
    alive = {row.name for row in read_table(spark, kept, "topics").collect()}
    assert alive == set(image_of(RECORDS).topics.values())


def test_code_of_the_page_runs(spark: SparkSession, logs: Any, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"spark": spark}
    with gateway(
        "--source", "log", "--log-dir", str(logs("p-one-basic") / "nodes" / "1")
    ) as server:
        for block in blocks:
            exec(
                block.replace("localhost:9092", server.bootstrap).replace(
                    '"/data/', f'"{tmp_path}/'
                ),
                names,
            )
    assert len(blocks) == 7
    assert names["svg"].startswith("<svg") and names["changes"].count() > 900
    both = [
        sorted(
            map(
                repr,
                read_table(spark, f"{tmp_path}/{name}", "changes").drop("cluster_id").collect(),
            )
        )
        for name in ("metadata", "other")
    ]
    assert both[0] == both[1]
    plain = spark.read.parquet(f"{tmp_path}/plain/topics")
    assert (
        plain.count() == read_table(spark, f"{tmp_path}/metadata", "topics", history=True).count()
    )
