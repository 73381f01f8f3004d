"""``kwire rescue`` as a command: what it prints, and its exit status."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from gateway.cli import main
from tests.gateway.rescue.copies import hashes

SAMPLE: Final = Path(__file__).resolve().parents[3] / "gateway" / "sample"
LOG: Final = Path("__cluster_metadata-0") / "00000000000000000000.log"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["rescue", *map(str, arguments)])


def inspected(*places: Path) -> tuple[int, dict[str, Any]]:
    result = run("inspect", *places, "-o", "json")
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "node"))


def test_the_only_voter_at_hand_whole_is_0(node: Path) -> None:
    before = hashes(node)
    status, found = inspected(node)
    assert status == 0
    [copy] = found["copies"]
    assert (copy["nodeId"], copy["role"], copy["kraftVersion"]) == (1, "voter", 1)
    assert [one["id"] for one in copy["voters"]] == [1]
    verdict = found["verdict"]
    assert verdict["best"] == str(node) and verdict["loss"]["excluded"]
    assert (verdict["epochSeen"], verdict["newEpoch"]) == (3, 1003)
    assert hashes(node) == before


def test_a_damaged_copy_is_1_and_says_where(node: Path) -> None:
    data = bytearray((node / LOG).read_bytes())
    data[len(data) // 2] ^= 1
    (node / LOG).write_bytes(data)
    status, found = inspected(node)
    assert status == 1 and not found["verdict"]["loss"]["excluded"]
    [damage] = found["copies"][0]["damage"]
    assert damage["file"] == str(node / LOG) and damage["position"] > 0


def test_text_says_the_same_in_sentences(node: Path, tmp_path: Path) -> None:
    shutil.copytree(node / "__cluster_metadata-0", bare := tmp_path / "bare")
    text = run("inspect", node, bare, "-o", "text").stdout
    assert f"best copy: {node}: it ends at offset" in text
    assert "as far as any copy reaches" in text
    assert "loss: excluded: 1 of 1 voters' copies are at hand" in text
    assert "epoch: 3 is the highest seen, a rescue uses 1003" in text
    assert f"{bare} (other): nothing: it follows by itself, without a restart" in text


def test_an_empty_directory_has_nothing_to_rescue_from(tmp_path: Path) -> None:
    result = run("inspect", tmp_path, "-o", "text")
    assert result.exit_code == 1
    assert "no copy has a record" in result.stdout


def test_a_place_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    result = run("inspect", tmp_path / "nowhere")
    assert result.exit_code == 2 and "does not exist" in result.output
