"""``kwire state`` as a command: what is printed of a tree, and how what is wrong is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.cli import main
from gateway.cli.state import path_text, select, tree_lines, value_text
from tests.shared import needs_shared

SAMPLE = Path(__file__).resolve().parents[3] / "gateway" / "sample"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["state", *map(str, arguments)])


def shown(*arguments: object) -> Any:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_directory_its_parent_and_its_files_are_one_source() -> None:
    inside = SAMPLE / "__cluster_metadata-0"
    whole = shown(SAMPLE)
    assert whole == shown(inside) == shown(*sorted(inside.glob("*.log")))
    assert list(whole)[:3] == ["acls", "clientQuotas", "cluster"]
    assert whole["topics"]["byName"]


def test_a_path_shows_that_alone() -> None:
    whole = shown(SAMPLE)
    name, topic = next(iter(whole["topics"]["byName"].items()))
    assert (
        shown(SAMPLE, "--path", f"/topics/{name}")
        == shown(SAMPLE, "--path", f"/image/topics/byName/{name}/")
        == topic
    )
    assert shown(SAMPLE, "--path", f"/topics/byName/{name}/0/leader") == topic["0"]["leader"]
    every = {
        f"/topics/byName/{one}/0": each["0"] for one, each in whole["topics"]["byName"].items()
    }
    assert shown(SAMPLE, "--path", "/topics/*/0") == every


def test_before_the_first_record_there_is_nothing() -> None:
    empty = shown(SAMPLE, "--at", 0)
    assert empty["topics"] == {"byId": {}, "byName": {}} and empty["provenance"]["offset"] == -1


def test_at_a_time() -> None:
    whole = shown(SAMPLE)
    assert shown(SAMPLE, "--at", whole["provenance"]["time"]) == whole
    assert shown(SAMPLE, "--at", "1970-01-01")["provenance"]["offset"] == -1


def test_a_tree_is_for_people() -> None:
    lines = run(SAMPLE, "-o", "tree").stdout.splitlines()
    assert "acls:" in lines and "  byName:" in lines
    name = next(iter(shown(SAMPLE)["topics"]["byName"]))
    assert f"      name: {name}" in lines


@needs_shared
def test_no_secret_of_a_real_log_is_printed(logs: Any) -> None:
    source = logs("p-one-basic") / "nodes" / "1"
    truth = (logs("p-one-basic") / "truth" / "1" / "state-END.jsonl").read_text(encoding="utf-8")
    hidden, open_ = run(source).stdout, run(source, "--show-secrets").stdout
    secrets = [
        record["data"]["value"]
        for record in map(json.loads, truth.split("\n")[1:-1])
        if record["type"] == "CONFIG_RECORD"
        and record["data"]["name"].endswith(("password", "jaas.config"))
    ]
    assert len(secrets) > 2
    for secret in secrets:
        assert json.dumps(secret) not in hidden and json.dumps(secret) in open_
    credential = json.loads(open_)["scram"]["SCRAM-SHA-256"]["ann"]
    assert credential["storedKey"] in open_ and credential["storedKey"] not in hidden


def test_notes_go_to_standard_error(tmp_path: Path) -> None:
    whole = next((SAMPLE / "__cluster_metadata-0").glob("*.log"))
    (tmp_path / whole.name).write_bytes(whole.read_bytes()[:-1])
    result = run(tmp_path)
    assert result.exit_code == 0 and "ends inside a batch" in result.stderr
    json.loads(result.stdout)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((), 2, "name files or a directory, or a server with -b"),
        ((SAMPLE, "-b", "localhost:1"), 2, "name files or a directory, or a server with -b"),
        ((SAMPLE, "--at", "soon"), 2, "neither an offset, nor a time"),
        ((SAMPLE, "--at", "9999999"), 1, "there is no state before 9999999 yet"),
        ((SAMPLE, "--path", "/topic"), 1, "/ has no topic; it has topics"),
        ((SAMPLE / "nowhere",), 2, "does not exist"),
    ],
)
def test_fault_is_reported_with_its_exit_status(
    arguments: tuple[object, ...], code: int, text: str
) -> None:
    result = run(*arguments)
    assert (result.exit_code, text in result.stderr) == (code, True), result.output


# --- paths and lines
# --------------------------------------------------------------------------------------------------

ROOT: dict[str, Any] = {
    "topics": {"byId": {"X": 1}, "byName": {"byName": 2, "a*b": 3, "ab": 4, "[a]": 5}},
    "scram": {"a/b": 6, "a\\b": 7, "c": {"k": 8}, "d": {"k": 9}},
}


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("/", ROOT),
        ("", ROOT),
        ("scram/c/k", 8),
        ("//scram//c", {"k": 8}),
        (r"/scram/a\/b", 6),
        (r"/scram/a\\b", 7),
        ("/scram/?/k", {"/scram/c/k": 8, "/scram/d/k": 9}),
        ("/scram/[c]/k", {"/scram/c/k": 8}),
        ("/topics/byId/X", 1),
        ("/topics/byName/byName", 2),
        ("/topics/a*b", 3),
        ("/topics/[a]", 5),
        ("/topics/a*", {"/topics/byName/a*b": 3, "/topics/byName/ab": 4}),
        (r"/topics/a\**", {"/topics/byName/a*b": 3}),
    ],
)
def test_path_selects_the_parts_that_match(place: str, found: Any) -> None:
    assert select(ROOT, place) == found


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("/scram/e", "/scram has no e; it has"),
        ("/scram/c/k/l", "no name before it leads to l"),
        ("/scram/*/l", "none of what matches before it leads to l"),
        ("/topics/abc", "/topics/byName has no abc; it has ab"),
        (r"/scram/\*", r"/scram has no \*"),
    ],
)
def test_paths_to_nothing(place: str, text: str) -> None:
    with pytest.raises(click.ClickException) as caught:
        select(ROOT, place)
    assert text in caught.value.message


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4))
@example(["a/b"])
@example(["a\\", "/*"])
def test_a_printed_path_leads_back(names: list[str]) -> None:
    root: dict[str, Any] = {"leaf": 1}
    for name in reversed(names):
        root = {"a*b[": 2, name: root}
    assert select({"scram": root}, path_text(("scram", *names))) == {"leaf": 1}


def test_values_on_a_terminal_hold_nothing_that_moves_the_cursor() -> None:
    assert [
        value_text(one)
        for one in ("plain text", "", " x", "\x1b[2J", "\x9b", "a\nb", 1, None, [1, "x"], True)
    ] == [
        "plain text",
        '""',
        '" x"',
        r'"\u001b[2J"',
        r'"\u009b"',
        r'"a\nb"',
        "1",
        "null",
        '[1, "x"]',
        "true",
    ]
    lines = [click.unstyle(line) for line in tree_lines({"a": {"b": 1, "\n": {}}, "c": "x"})]
    assert lines == ["a:", "  b: 1", r'  "\n":', "c: x"]
    assert list(tree_lines("x")) == ["x"]
