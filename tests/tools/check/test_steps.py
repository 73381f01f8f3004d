"""The check's steps fail on what they are for: a tree that was changed by hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tools.check import description, log_event_tables, state_diagrams, steps
from tools.check.__main__ import main


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small tree of three schemas with the package made of them."""
    kafka = tmp_path / "schemas/kafka"
    kafka.mkdir(parents=True)
    origin = json.loads((steps.SCHEMAS / "ORIGIN.json").read_text())
    names = ("ApiVersionsRequest.json", "FetchRequest.json", "NoOpRecord.json")
    for name in names:
        shutil.copy(steps.SCHEMAS / "kafka" / name, kafka / name)
    (tmp_path / "schemas/facts").mkdir()
    shutil.copy(steps.SCHEMAS / "facts/4.4.0.json", tmp_path / "schemas/facts")
    files = [*(f"kafka/{name}" for name in names), "facts/4.4.0.json"]
    (tmp_path / "schemas/ORIGIN.json").write_text(
        json.dumps({name: origin[name] for name in files})
    )
    (tmp_path / "kwire/protocol").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    for page in (log_event_tables.PAGE, *state_diagrams.PAGES):
        shutil.copy(steps.ROOT / page, tmp_path / "docs")
    shutil.copy(steps.ROOT / description.SOURCE, tmp_path)
    monkeypatch.setattr(steps, "ROOT", tmp_path)
    monkeypatch.setattr(steps, "SCHEMAS", tmp_path / "schemas")
    steps.generated(True)
    return tmp_path


def test_a_fresh_tree_passes(tree: Path) -> None:
    assert steps.generated(False) == "15 modules"
    assert steps.schema_hashes(False) == "4 files"


def test_generated_files_are_compared_both_ways(tree: Path) -> None:
    package = tree / "kwire/messages"
    (package / "by_hand.py").write_text("")
    (package / "no_op_record.py").unlink()
    with (package / "fetch_request.py").open("a") as module:
        module.write("# by hand\n")
    (tree / "kwire/protocol/acl.py").unlink()
    with pytest.raises(steps.Failed) as failure:
        steps.generated(False)
    for problem in (
        "changed fetch_request.py",
        "missing no_op_record.py",
        "left over by_hand.py",
        "missing acl.py",
    ):
        assert problem in str(failure.value)
    assert steps.generated(True) == "15 modules"
    assert not (package / "by_hand.py").exists()


def test_schemas_are_compared_with_their_origin(tree: Path) -> None:
    kafka = tree / "schemas/kafka"
    (kafka / "NoOpRecord.json").unlink()
    (kafka / "Other.json").write_text("{}")
    with (kafka / "FetchRequest.json").open("a") as schema:
        schema.write("\n")
    with pytest.raises(steps.Failed) as failure:
        steps.schema_hashes(False)
    for problem in (
        "missing kafka/NoOpRecord.json",
        "without origin kafka/Other.json",
        "changed kafka/FetchRequest.json",
    ):
        assert problem in str(failure.value)


def test_the_command_names_its_steps_and_its_failures(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    listed = CliRunner().invoke(main, ["--list"])
    assert [line.split()[0] for line in listed.output.splitlines()] == [
        step.name for step in steps.STEPS
    ]
    assert CliRunner().invoke(main, ["nonsense"]).exit_code == 2
    (tree / "schemas/kafka/NoOpRecord.json").unlink()
    failed = CliRunner().invoke(main, ["schemas"])
    assert failed.exit_code == 1
    assert "failed: schemas" in failed.output


def test_steps_beside_the_tests_count_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(_fix: bool) -> str:
        raise steps.Failed("  two problems")

    monkeypatch.setattr(
        "tools.check.__main__.STEPS",
        [
            steps.Step("quick", "a quick one", lambda fix: "seen"),
            steps.Step("slow", "a slow one", wrong, beside=True),
            steps.Step("tests", "the tests", lambda fix: "", talks=True),
        ],
    )
    with pytest.raises(SystemExit, match="1"):
        main([], standalone_mode=False)
    told = capsys.readouterr().out
    assert "1/3 a quick one ... ok" in told
    assert "2/3 a slow one ... FAILED" in told and "  two problems" in told
    assert "failed: slow," in told


def test_step_on_demand_runs_only_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = steps.Step("waits", "measurements", lambda fix: "slow", on_demand=True)
    monkeypatch.setattr(
        "tools.check.__main__.STEPS", [steps.Step("quick", "a quick one", lambda fix: ""), slow]
    )
    for names, ran in (([], "a quick one"), (["waits"], "measurements")):
        with pytest.raises(SystemExit, match="0"):
            main(names, standalone_mode=False)
        assert f"1/1 {ran} ... ok" in capsys.readouterr().out
