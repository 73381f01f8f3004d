"""``kwire views`` and ``kwire tail`` of a view topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.cli import tail, views
from gateway.ports.view_topics import CHANGES, VIEWS, view_topic
from gateway.views.encode import ViewEncoder
from gateway.views.fold import Snapshot
from gateway.views.schemas import headers_schema, json_schema, spark_schemas
from kwire.cluster import view_offsets as offsets
from tests.gateway.handlers.mini_server import MiniServer, RealBatch, serving
from tests.gateway.handlers.world import MemoryPartition
from tests.gateway.views.test_fold import changes_of, removed, topic

AT = 1_795_269_787_512


def listed(*arguments: str) -> Result:
    return CliRunner().invoke(views.command, arguments)


def test_every_view_is_listed_with_key_and_fields() -> None:
    lines = [json.loads(line) for line in listed().output.splitlines()]
    assert [line["topic"] for line in lines] == [view_topic(view) for view in VIEWS]
    assert lines[1].items() >= {"topic": view_topic("topics"), "key": ["name"]}.items()
    assert all(line["about"] for line in lines)
    fields = "name id partitions replicationFactor configs"
    assert f"    key     name\n    fields  {fields}\n" in listed("-o", "text").output


def test_schema_is_printed() -> None:
    assert json.loads(listed("--schema", "acls").output) == json_schema("acls")
    key = json.loads(listed("--schema", "acls", "--key", "--connect").output)
    assert key["fields"] == [{"field": "id", "type": "string", "optional": False}]


def test_columns_for_spark_are_printed_in_one_line() -> None:
    columns = "`feature` STRING, `level` INT, `release` STRING\n"
    assert listed("--schema", "features", "--spark").output == columns
    assert listed("--schema", "acls", "--spark", "--key").output == "`id` STRING\n"


def test_columns_of_all_views_for_spark_are_one_object() -> None:
    assert json.loads(listed("--spark").output) == spark_schemas()


def test_schema_of_the_headers_is_printed() -> None:
    assert json.loads(listed("--schema", "acls", "--headers").output) == headers_schema("acls")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--key"],
        ["--headers"],
        ["--spark", "-b", "localhost:1"],
        ["--spark", "--key"],
        ["--schema", "acls", "--spark", "--connect"],
        ["--schema", "acls", "--headers", "--key"],
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(arguments: list[str]) -> None:
    assert listed(*arguments).exit_code == 2


def partition(view: str, epoch: int, *, schemas: bool) -> MemoryPartition:
    encoder = ViewEncoder("c", schemas=schemas)
    changes = changes_of(topic(1), topic(2), removed(1), timestamp=AT)
    complete = Snapshot(9, 3, offsets.of_snapshot(9), 1, AT)
    batches = [
        RealBatch(0, batch.last_offset, epoch, AT, len(batch.data), batch.data)
        for batch in encoder.batches(view, changes, complete)
    ]
    return MemoryPartition(batches)  # type: ignore[arg-type]


@pytest.fixture(params=[False, True], ids=["json", "json with schema"])
def server(request: Any) -> Iterator[MiniServer]:
    with serving() as server:
        server.views = SimpleNamespace(
            available=True,
            listed=False,
            partition=lambda name: partition(
                name.rpartition(".")[2], server.partition.leader_epoch, schemas=request.param
            ),
        )
        yield server


def tailed(server: MiniServer, view: str, *arguments: str) -> Result:
    return CliRunner().invoke(
        tail.command,
        ["-b", f"127.0.0.1:{server.port}", "--topic", view_topic(view), "--until-end", *arguments],
    )


def test_tail_prints_key_and_value(server: MiniServer) -> None:
    result = tailed(server, "topics")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert [(line["key"], line["value"] and line["value"]["name"]) for line in lines] == [
        ({"name": "t1"}, "t1"),
        ({"name": "t2"}, "t2"),
        ({"name": "t1"}, None),
        ({"name": ""}, None),
    ]
    assert {line["timestamp"] for line in lines} == {AT}
    assert {line["headers"]["cluster_id"] for line in lines} == {"c"}
    assert [line["headers"].get("snapshot") for line in lines] == [None, None, None, "9-3"]


def test_tail_as_text_has_a_sign_for_what_happened(server: MiniServer) -> None:
    lines = tailed(server, "topics", "-o", "text").output.splitlines()
    assert [line.split()[2:4] for line in lines] == [
        ["+", '{"name":'], ["+", '{"name":'], ["-", '{"name":'], ["=", "snapshot"]
    ]  # fmt: skip
    assert lines[-1].endswith('= snapshot "9-3" is complete')
    lines = tailed(server, CHANGES, "-o", "text").output.splitlines()
    assert [line.split()[2] for line in lines] == ["+", "+", "-", "="]
