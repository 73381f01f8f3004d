"""``kwire diff`` as a command: its lines and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.cli.diff import text_lines
from kwire.cluster.difference import ADDED, CHANGED, REMOVED, Change
from tests.shared import needs_shared

SAMPLE = Path(__file__).resolve().parents[3] / "gateway" / "sample"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, arguments)])


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.split("\n") if line]


def test_the_same_is_0_and_nothing() -> None:
    result = run(SAMPLE, SAMPLE / "__cluster_metadata-0")
    assert (result.exit_code, result.output) == (0, "")


def test_from_nothing_everything_was_added() -> None:
    result = run(f"{SAMPLE}@0", SAMPLE)
    assert result.exit_code == 1
    changes = lines(result)
    assert {
        one["change"] for one in changes if one["path"] not in ("/features", "/producerIds")
    } == {"added"}
    assert all(
        list(one) == ["change", "path", "before", "after"] and one["after"] for one in changes
    )
    back = lines(run(SAMPLE, f"{SAMPLE}@0"))
    assert [(one["path"], one["after"], one["before"]) for one in back] == [
        (one["path"], one["before"], one["after"]) for one in changes
    ]


@needs_shared
def test_two_snapshots_and_the_same_offsets_of_the_log(logs: Any) -> None:
    source = logs("p-quorum") / "nodes" / "101" / "__cluster_metadata-0"
    files = [next(source.glob(f"*{end}-*.checkpoint")) for end in (412, 1842)]
    by_file, by_offset = run(*files), run(f"{source}@412", f"{source}@1842")
    assert by_file.exit_code == by_offset.exit_code == 1
    assert by_file.stdout == by_offset.stdout
    assert {one["change"] for one in lines(by_file)} == {"added", "removed", "changed"}


@needs_shared
def test_secrets_show_as_changed_and_stay_hidden(logs: Any) -> None:
    source = logs("p-quorum") / "nodes" / "101" / "__cluster_metadata-0"
    hidden, shown = run(f"{source}@0", source), run(f"{source}@0", source, "--show-secrets")
    users = [one["after"] for one in lines(hidden) if one["path"].startswith("/scram")]
    assert users and all(user["storedKey"] == "(redacted)" for user in users)
    keys = [one["after"]["storedKey"] for one in lines(shown) if one["path"].startswith("/scram")]
    assert len(keys) == len(users) and all(key not in hidden.stdout for key in keys)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((SAMPLE,), "Missing argument 'B'"),
        ((SAMPLE, f"{SAMPLE}@99999"), "there is no state before 99999 yet"),
        ((SAMPLE, SAMPLE / "nowhere"), "does not exist"),
        ((SAMPLE, f"{SAMPLE}@soon"), "neither an offset"),
    ],
)
def test_trouble_is_2(arguments: tuple[object, ...], text: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, text in result.stderr) == (2, True), result.output


def test_text_has_a_line_for_the_entity_and_one_for_each_field() -> None:
    changes = [
        Change(ADDED, ("a", "b/c"), None, {"x": 1}),
        Change(REMOVED, ("a",), {"x": [1]}, None),
        Change(CHANGED, ("\x1b",), {"x": "u", "gone": None}, {"x": "v", "new": True}),
    ]
    assert [click.unstyle(line) for change in changes for line in text_lines(change)] == [
        r"+ /a/b\/c", "    x: + 1",
        "- /a", "    x: - [1]",
        r"~ /\x1b", "    x: u -> v", "    gone: - null", "    new: + true",
    ]  # fmt: skip


def test_text_on_request() -> None:
    result = run(f"{SAMPLE}@0", SAMPLE, "-o", "text")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0].startswith("+ /")
