"""``kwire rescue`` as a command: what it prints, and its exit status."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from gateway.base.address import Address
from gateway.cli import main
from gateway.cli.quorum_ask import Quorum
from gateway.cli.rescue import parse_voter
from gateway.log.files.directory_lock import DirectoryLock
from kwire.messages.describe_quorum_response import PartitionData
from tests.gateway.rescue.copies import hashes
from tests.shared import needs_shared

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
    assert found["verdict"]["loss"]["certainOffset"] == 0
    text = run("inspect", node, "-o", "text").stdout
    assert "only its records below offset 0 are sure to be committed" in text


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


# --- write
# ---------------------------------------------------------------------------


def written(*arguments: object) -> tuple[int, dict[str, Any]]:
    result = run("write", *arguments, "--no-ask", "-o", "json")
    return result.exit_code, json.loads(result.stdout)


def test_a_dry_run_changes_nothing_and_says_what_it_would_do(node: Path) -> None:
    before = hashes(node.parent)
    status, found = written("--from", node, "--to", node, "--voter", "1@new:9093")
    assert status == 0 and not found["written"] and found["refusals"] == []
    assert (found["epoch"], found["epochSeen"]) == (1003, 3)
    assert found["voters"][0]["directoryId"] == "8MPuA7pBS-yTmfIxL8wHag"
    assert found["voters"][0]["endpoints"] == ["CONTROLLER://new:9093"]
    assert any("describe --status names a LeaderId" in one for one in found["steps"])
    assert hashes(node.parent) == before


def test_yes_writes_and_a_second_run_does_nothing(node: Path) -> None:
    arguments = ("--from", node, "--to", node, "--voter", "1@new:9093", "--yes")
    status, found = written(*arguments)
    assert status == 0 and found["written"]
    assert Path(found["targets"][0]["backup"]).is_dir()
    journal = found["targets"][0]["journal"]
    assert json.loads(Path(journal).read_text())["steps"] == found["steps"] != []
    before = hashes(node.parent)
    status, again = written(*arguments)
    assert status == 0 and again["done"] and not again["written"]
    assert hashes(node.parent) == before
    text = run("write", *arguments, "--no-ask", "-o", "text").stdout
    assert "done already" in text and f"the steps that follow: {journal}\n" in text


def test_all_controllers_lost_are_written_anew_from_a_copy(node: Path, tmp_path: Path) -> None:
    """The target is a new node in a directory that does not exist yet."""
    target = tmp_path / "new" / "controller"
    arguments = ("--from", node, "--to", target, "--voter", "9@new:9093")
    status, found = written(*arguments)
    assert status == 0 and found["targets"][0]["new"] and not target.exists()
    before = hashes(node)
    assert written(*arguments, "--yes")[0] == 0
    assert hashes(node) == before
    _, inside = inspected(target)
    [copy] = inside["copies"]
    assert (copy["nodeId"], copy["role"]) == (9, "voter")
    assert copy["directoryId"] == found["voters"][0]["directoryId"]


def test_a_loss_that_is_not_excluded_is_refused_in_words(node: Path, tmp_path: Path) -> None:
    bare = Path(shutil.move(node / "__cluster_metadata-0", tmp_path / "bare"))
    arguments = ("--from", bare, "--to", node, "--voter", "1@new:9093")
    result = run("write", *arguments, "--no-ask", "-o", "text", "--yes")
    assert result.exit_code == 1
    assert "refused, and nothing was changed:" in result.stdout
    assert "--accept-loss" in result.stdout
    text = run("write", *arguments, "--no-ask", "-o", "text", "--accept-loss").stdout
    assert "ACCEPTED: records from offset" in text and "1. controller.quorum.bootstrap" in text


def test_a_directory_that_a_process_has_open_is_refused(node: Path) -> None:
    lock = DirectoryLock(node)
    try:
        status, found = written("--from", node, "--to", node, "--voter", "1@new:9093", "--yes")
    finally:
        lock.release()
    assert status == 1 and "in use" in found["refusals"][0]


def test_a_quorum_with_a_leader_is_refused(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = PartitionData(leader_id=2, leader_epoch=8)
    asked: list[Any] = []

    def answer(addresses: Any, *_: Any) -> Quorum:
        asked.extend(map(str, addresses))
        return Quorum("cluster", leader, [])

    monkeypatch.setattr("gateway.cli.quorum_ask.ask", answer)
    result = run("write", "--from", node, "--to", node, "--voter", "1@new:9093", "-o", "json")
    assert result.exit_code == 1
    assert "has a leader, node 2 in epoch 8" in json.loads(result.stdout)["refusals"][0]
    assert "new:9093" in asked and len(asked) == 2


@pytest.mark.parametrize("text", ["1", "x@h:1", "1@h", "1@h:99999", "-1@h:1", "1@h:1:short"])
def test_a_voter_in_another_form_is_wrong_usage(node: Path, text: str) -> None:
    result = run("write", "--from", node, "--to", node, f"--voter={text}")
    assert result.exit_code == 2


def test_voters_are_parsed_as_kafka_storage_takes_them() -> None:
    voter = parse_voter("3@[::1]:9093:8MPuA7pBS-yTmfIxL8wHag")
    assert (voter.id, voter.address) == (3, Address("::1", 9093))
    assert str(voter.directory_id) == "8MPuA7pBS-yTmfIxL8wHag"
    assert parse_voter("3@c3:9093").directory_id is None


def test_a_dry_run_over_an_interrupted_rescue_says_how_to_complete_it(node: Path) -> None:
    """A crash has left the directories as they are between the two renames."""
    assert written("--from", node, "--to", node, "--voter", "1@new:9093", "--yes")[0] == 0
    (node / "meta.properties").rename(node / "meta.properties.rescue")
    (node / "__cluster_metadata-0").rename(node / "__cluster_metadata-0.rescue-new")
    (node / "__cluster_metadata-0").mkdir()
    source = SAMPLE
    arguments = ("--from", source, "--to", node, "--voter", "1@new:9093")
    status, found = written(*arguments)
    assert status == 1 and "--yes completes it" in str(found["refusals"])
    status, found = written(*arguments, "--yes")
    assert status == 0 and found["done"]
    assert inspected(node)[0] == 0


# --- write --snapshot
# ---------------------------------------------------------------------------


def test_a_snapshot_replaces_the_log_and_has_the_state_and_the_voters(node: Path) -> None:
    arguments = ("--from", node, "--to", node, "--voter", "1@new:9093", "--snapshot", "--yes")
    status, found = written(*arguments)
    assert status == 0 and found["changes"] == [] and found["dropped"] == {}
    names = {one.name for one in (node / "__cluster_metadata-0").iterdir()}
    end = found["endOffset"]
    assert names == {f"{end:020d}-0000001003.checkpoint", "quorum-state", "partition.metadata"}
    _, inside = inspected(node)
    [copy] = inside["copies"]
    assert (copy["startOffset"], copy["endOffset"], copy["epoch"]) == (end, end, 1003)
    assert copy["voters"][0]["endpoints"] == ["CONTROLLER://new:9093"]
    status, found = checked(node, "--from", SAMPLE)
    assert status == 0 and found["ledEpoch"] == 1004
    assert written(*arguments)[1]["done"]


def test_a_damaged_log_goes_on_with_what_lies_before_the_damage(node: Path) -> None:
    data = bytearray((node / LOG).read_bytes())
    data[len(data) // 2 + 500] ^= 1
    (node / LOG).write_bytes(data)
    arguments = ("--from", node, "--to", node, "--voter", "1@new:9093")
    status, found = written(*arguments, "--accept-loss")
    assert status == 1 and "--snapshot --accept-loss goes on" in found["refusals"][0]
    assert written(*arguments, "--snapshot")[0] == 1
    status, found = written(*arguments, "--snapshot", "--accept-loss", "--yes")
    assert status == 0 and found["written"]
    assert checked(node)[0] == 0


def test_records_from_an_offset_on_are_dropped_counted_and_shown(node: Path) -> None:
    end = inspected(node)[1]["copies"][0]["endOffset"]
    arguments = ("--from", node, "--to", node, "--voter", "1@new:9093", "--snapshot")
    status, found = written(*arguments, "--cut-at", 200)
    assert status == 1 and f"drops the records 200 to {end - 1}" in found["refusals"][0]
    status, found = written(*arguments, "--cut-at", 200, "--accept-loss")
    assert status == 0 and found["endOffset"] == 200
    assert sum(found["dropped"].values()) > 100 and found["changes"]
    text = run("write", *arguments, "--cut-at", 200, "--accept-loss", "--no-ask", "-o", "text")
    assert "dropped records:" in text.stdout and "the state changes:" in text.stdout
    assert "nothing else can be missing" in text.stdout
    assert written(*arguments, "--cut-at", end + 1)[0] == 1


@needs_shared
def test_registrations_of_lost_controllers_are_dropped(logs: Any, tmp_path: Path) -> None:
    survivor = Path(shutil.copytree(logs("p-quorum-short") / "nodes" / "2", tmp_path / "two"))
    arguments = ("--from", survivor, "--to", survivor, "--voter", "2@new:9093", "--accept-loss")
    status, found = written(*arguments, "--snapshot", "--drop-controllers", "--yes")
    assert status == 0
    assert found["changes"] and all(
        "ontroller" in one and one.startswith("removed") for one in found["changes"]
    )
    assert not any("still registered" in one for one in found["steps"])
    assert checked(survivor)[0] == 0


@needs_shared
def test_a_snapshot_file_alone_is_enough(logs: Any, tmp_path: Path) -> None:
    node = Path(shutil.copytree(logs("p-quorum-short") / "nodes" / "2", tmp_path / "two"))
    source = max((node / "__cluster_metadata-0").glob("*.checkpoint"))
    shutil.move(source, source := tmp_path / source.name)
    shutil.rmtree(node / "__cluster_metadata-0")
    arguments = ("--from", source, "--to", node, "--voter", "2@new:9093", "--accept-loss")
    assert "is a snapshot file" in written(*arguments)[1]["refusals"][0]
    status, _ = written(*arguments, "--snapshot", "--yes")
    assert status == 0 and checked(node, "--from", source)[0] == 0


def test_options_of_a_snapshot_need_it(node: Path) -> None:
    result = run("write", "--from", node, "--to", node, "--voter", "1@h:1", "--cut-at", 5)
    assert result.exit_code == 2 and "need --snapshot" in result.output


# --- check
# ---------------------------------------------------------------------------


def checked(*arguments: object) -> tuple[int, dict[str, Any]]:
    result = run("check", *arguments, "-o", "json")
    return result.exit_code, json.loads(result.stdout)


def test_a_rescued_directory_elects_itself_and_has_the_state_of_its_source(node: Path) -> None:
    assert written("--from", node, "--to", node, "--voter", "1@new:9093", "--yes")[0] == 0
    before = hashes(node)
    status, found = checked(node, "--from", SAMPLE)
    assert status == 0 and found["passed"] and found["ledEpoch"] == 1004
    assert hashes(node) == before
    assert "elected itself in epoch 1004" in run("check", node, "-o", "text").stdout


@needs_shared
def test_a_survivor_of_four_leads_only_after_a_rescue(logs: Any, tmp_path: Path) -> None:
    survivor = Path(shutil.copytree(logs("p-quorum-short") / "nodes" / "2", tmp_path / "two"))
    status, found = checked(survivor)
    assert status == 1 and "cannot lead alone" in found["faults"][0]
    arguments = ("--from", survivor, "--to", survivor, "--voter", "2@new:9093")
    epoch = written(*arguments, "--accept-loss", "--yes")[1]["epoch"]
    status, found = checked(survivor)
    assert status == 0 and found["ledEpoch"] == epoch + 1


@pytest.fixture
def three(node: Path, tmp_path: Path) -> list[Path]:
    """The rescued directories of three voters."""
    directories = [node, tmp_path / "two", tmp_path / "three"]
    arguments: list[object] = ["--from", node]
    for number, directory in enumerate(directories, 1):
        arguments += ["--to", directory, "--voter", f"{number}@new{number}:9093"]
    assert written(*arguments, "--yes")[0] == 0
    return directories


def test_rescued_voters_elect_a_leader_among_them(three: list[Path]) -> None:
    before = [hashes(one) for one in three]
    status, found = checked(*three, "--from", SAMPLE)
    assert status == 0 and found["passed"] and found["changed"] == []
    assert found["ledEpoch"] == 1004 and found["leaderId"] in (1, 2, 3)
    text = run("check", *three, "-o", "text").stdout
    assert f"nodes 1, 2, 3 elected node {found['leaderId']} in epoch 1004" in text
    assert [hashes(one) for one in three] == before


def test_a_majority_of_rescued_voters_elects_and_fewer_do_not(three: list[Path]) -> None:
    assert checked(*three[1:])[0] == 0
    status, found = checked(three[1])
    assert status == 1 and "node 2 cannot lead alone: its voters are 1, 2, 3" in found["faults"][0]


def test_two_directories_of_one_node_fail_the_check(node: Path, tmp_path: Path) -> None:
    again = Path(shutil.copytree(node, tmp_path / "again"))
    status, found = checked(node, again)
    assert status == 1 and f"{again} is a directory of node 1" in found["faults"][0]


def test_kafka_is_started_for_one_directory_alone(three: list[Path], tmp_path: Path) -> None:
    result = run("check", *three, "--with-kafka", tmp_path)
    assert result.exit_code == 2 and "give the DIR of the only voter" in result.output


@needs_shared
def test_a_static_quorums_directory_elects_itself_too(logs: Any, tmp_path: Path) -> None:
    node = Path(shutil.copytree(logs("p-one-segments") / "nodes" / "7", tmp_path / "seven"))
    assert written("--from", node, "--to", node, "--voter", "7@new:9093", "--yes")[0] == 0
    status, found = checked(node)
    assert status == 0 and found["ledEpoch"] > 1000


def test_a_source_with_another_state_is_shown(node: Path, tmp_path: Path) -> None:
    short = Path(shutil.copytree(node, tmp_path / "short"))
    log = short / LOG
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    (short / "__cluster_metadata-0" / "leader-epoch-checkpoint").unlink()
    assert written("--from", node, "--to", node, "--voter", "1@new:9093", "--yes")[0] == 0
    status, found = checked(node, "--from", short)
    assert status == 1 and found["changed"]


def test_a_damaged_directory_fails_the_check_with_its_place(node: Path) -> None:
    (node / "meta.properties").unlink()
    status, found = checked(node)
    assert status == 1 and "meta.properties" in found["faults"][0]


def a_release(directory: Path, script: str) -> Path:
    """A directory with a start script that does what ``script`` says; $1 is server.properties."""
    path = directory / "kafka" / "bin" / "kafka-server-start.sh"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path.parent.parent


def test_a_release_of_kafka_is_started_on_a_copy_until_it_leads(node: Path, tmp_path: Path) -> None:
    assert written("--from", node, "--to", node, "--voter", "1@new:9093", "--yes")[0] == 0
    before = hashes(node)
    home = a_release(
        tmp_path,
        "dir=$(sed -n 's/^log.dirs=//p' $1)\n"
        "grep -q '^listeners=CONTROLLER://127.0.0.1:' $1 || exit 3\n"
        'sed \'s/"leaderId":-1,"leaderEpoch":1003/"leaderId":1,"leaderEpoch":1004/\''
        " $dir/__cluster_metadata-0/quorum-state > $dir/new\n"
        "mv $dir/new $dir/__cluster_metadata-0/quorum-state\n"
        "exec sleep 600",
    )
    status, found = checked(node, "--with-kafka", home)
    assert status == 0 and found["kafkaLedEpoch"] == 1004
    assert hashes(node) == before


def test_a_kafka_that_ends_is_shown_with_its_last_lines(node: Path, tmp_path: Path) -> None:
    home = a_release(tmp_path, "echo no readable meta.properties\nexit 7")
    result = run("check", node, "--with-kafka", home)
    assert result.exit_code == 1
    assert "Kafka ended with 7: no readable meta.properties" in result.output
    result = run("check", node, "--with-kafka", tmp_path)
    assert "give the directory of a Kafka release" in result.output
