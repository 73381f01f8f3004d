"""``kwire format``: what it writes for which options, and what it says of options that contradict
each other.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.log.metadata.formatting import read_bootstrap
from gateway.log.metadata.raft_store import RaftStore
from gateway.log.metadata.stored_facts import StoredFacts
from gateway.log.partition.data_directory import read_meta
from gateway.log.partition.log_settings import LogSettings
from kwire.records import decode_metadata_record
from kwire.uuid import Uuid

CLUSTER_ID = "QKPByyaYQyWJjkXGE6EEwA"
ONE, TWO = "jejmYUtCT5uVMljQHNQ3AQ", "jejmYUtCT5uVMljQHNQ3Ag"
CONTROLLERS = f"1@ctl1:9093:{ONE},2@[::1]:19093:{TWO}"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["format", *arguments], catch_exceptions=False)


def formatted(data_dir: Path, *arguments: str) -> dict[str, Any]:
    done = run("-t", CLUSTER_ID, "--data-dir", str(data_dir), *arguments)
    assert done.exit_code == 0, done.output
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def stored(data_dir: Path, node_id: int = 1) -> StoredFacts:
    store = RaftStore.open(data_dir, LogSettings(), node_id=node_id, cluster_id=CLUSTER_ID)
    facts = store.stored()
    store.close()
    return facts


def test_standalone_node_is_formatted_as_the_only_voter(tmp_path: Path) -> None:
    facts = formatted(tmp_path, "--standalone")
    assert (facts["formatted"], facts["cluster.id"], facts["node.id"], facts["voters"]) == (
        True,
        CLUSTER_ID,
        1,
        [1],
    )
    assert facts["data.dir"] == str(tmp_path)
    ((offset, record),) = stored(tmp_path).voters
    (alone,) = record.voters
    assert (offset, alone.voter_id, str(alone.voter_directory_id)) == (-1, 1, facts["directory.id"])
    assert [(one.name, one.host, one.port) for one in alone.endpoints] == [
        ("CONTROLLER", "127.0.0.1", 9093)
    ]


def test_standalone_with_the_listeners_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text(
        f"node.id=4\ndata.dir={tmp_path / 'data'}\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CTL://0.0.0.0:9095\n"
        "controller.listener.names=CTL\n"
        "listener.security.protocol.map=CTL:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        "advertised.listeners=CTL://node4.example:9095\n"
    )
    done = run("-t", CLUSTER_ID, "-c", str(file), "-s")
    assert done.exit_code == 0, done.output
    ((_, record),) = stored(tmp_path / "data", 4).voters
    assert [(one.name, one.host, one.port) for one in record.voters[0].endpoints] == [
        ("CTL", "node4.example", 9095)
    ]


def test_all_log_directories_are_formatted_once(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    paths = [tmp_path / name for name in ("a", "b", "c")]
    file.write_text("process.roles=broker,controller\nlog.dirs=" + ",".join(map(str, paths)) + "\n")
    arguments = ("-t", CLUSTER_ID, "-c", str(file), "-s", "-o", "json")
    facts = json.loads(run(*arguments).stdout)
    metas = [read_meta(path) for path in paths]
    ids = [str(one.directory_id) for one in metas if one is not None]
    assert len(set(ids)) == 3 and ids[0] == facts["directory.id"]
    assert facts["log.dirs"] == {str(paths[1]): ids[1], str(paths[2]): ids[2]}
    assert {(one.cluster_id, one.node_id) for one in metas if one} == {(CLUSTER_ID, 1)}
    again = json.loads(run(*arguments, "--ignore-formatted").stdout)
    assert (again["formatted"], again["log.dirs"]) == (False, facts["log.dirs"])
    # The metadata log's directory by another path of it is no further directory.
    link = tmp_path / "link"
    link.symlink_to(paths[0])
    linked = run(*arguments, "--ignore-formatted", "--data-dir", str(link))
    assert json.loads(linked.stdout)["log.dirs"] == facts["log.dirs"]
    other = run("-t", ONE, "-c", str(file), "-s", "--data-dir", str(tmp_path / "m"))
    assert other.exit_code == 1 and f"belongs to node 1 of cluster {CLUSTER_ID}" in other.output


@pytest.mark.parametrize(("node_id", "directory_id"), [(1, ONE), (2, TWO), (3, None)])
def test_initial_controllers(node_id: int, directory_id: str | None, tmp_path: Path) -> None:
    facts = formatted(tmp_path, "--node-id", str(node_id), "--initial-controllers", CONTROLLERS)
    assert facts["voters"] == [1, 2]
    assert facts["directory.id"] == directory_id or (
        directory_id is None and facts["directory.id"] not in (ONE, TWO)
    )
    ((_, record),) = stored(tmp_path, node_id).voters
    told = [
        (one.voter_id, str(one.voter_directory_id), one.endpoints[0].host, one.endpoints[0].port)
        for one in record.voters
    ]
    assert told == [(1, ONE, "ctl1", 9093), (2, TWO, "::1", 19093)]


def test_no_initial_controllers(tmp_path: Path) -> None:
    assert formatted(tmp_path, "-N", "-f", "kraft.version=1")["voters"] is None
    assert stored(tmp_path).voters == ()


def test_a_static_quorum(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text("controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:9094\n")
    assert formatted(tmp_path / "data", "-c", str(file), "-f", "kraft.version=0")["voters"] is None
    assert stored(tmp_path / "data").kraft_versions == ()


def test_features_of_a_release_are_stored_with_those_given(tmp_path: Path) -> None:
    facts = formatted(
        tmp_path, "-s", "-r", "4.1-IV0", "-f", "group.version=0", "-f", "transaction.version=1"
    )
    expected = {
        "metadata.version": 26,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 1,
    }
    assert facts["features"] == expected
    messages: list[Any] = [
        decode_metadata_record(value)[2] for value in read_bootstrap(tmp_path) or ()
    ]
    assert {one.name: one.feature_level for one in messages} == expected
    assert (
        formatted(tmp_path / "b", "-s", "-f", "metadata.version=25")["features"]["metadata.version"]
        == 25
    )


def test_first_users_are_records_behind_the_features(tmp_path: Path) -> None:
    scram = [
        f"SCRAM-SHA-{bits}=[name={name},password=x]" for bits, name in ((256, "a"), (512, "b"))
    ]
    facts = formatted(tmp_path, "-s", "--add-scram", scram[0], "-S", scram[1])
    assert facts["users"] == ["a", "b"]
    last: list[Any] = [decode_metadata_record(value)[2] for value in read_bootstrap(tmp_path) or ()]
    assert [(one.name, one.mechanism, one.iterations) for one in last[-2:]] == [
        ("a", 1, 4096),
        ("b", 2, 4096),
    ]


def test_a_second_time(tmp_path: Path) -> None:
    first = formatted(tmp_path, "-s")
    again = run("-t", CLUSTER_ID, "--data-dir", str(tmp_path), "-s")
    assert (again.exit_code, again.stderr) == (
        1,
        f"Error: {tmp_path} is formatted already: --ignore-formatted leaves it as it is\n",
    )
    left = formatted(tmp_path, "-s", "--ignore-formatted")
    assert (left["formatted"], left["directory.id"]) == (False, first["directory.id"])
    other = run("-t", TWO, "--data-dir", str(tmp_path), "-s", "-g")
    assert other.exit_code == 1 and f"formatted for node 1 of cluster {CLUSTER_ID}" in other.stderr


def test_random_ids(tmp_path: Path) -> None:
    assert len(Uuid.parse(run("--random-uuid").stdout.strip())) == 16
    made = run("-t", "random", "--data-dir", str(tmp_path), "-s")
    assert len(Uuid.parse(json.loads(made.stdout)["cluster.id"])) == 16


def test_as_text(tmp_path: Path) -> None:
    line = ["-t", CLUSTER_ID, "--data-dir", str(tmp_path), "-s", "-o", "text", "-g"]
    assert run(*line).stdout.startswith(
        f"formatted {tmp_path} for node 1 of cluster {CLUSTER_ID}, directory "
    )
    assert (
        run(*line).stdout
        == f"{tmp_path} is formatted already for node 1 of cluster {CLUSTER_ID}: left as it is\n"
    )


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["-s"], "--cluster-id is needed: the id of the cluster, or 'random'"),
        (["-s", "-t", "abc"], "'abc' has 2 bytes, not 16; 'kwire format --random-uuid' makes one"),
        (
            ["-t", CLUSTER_ID],
            (
                "controller.quorum.voters is not set: give one of --standalone,"
                " --initial-controllers and"
            ),
        ),
        (["-t", CLUSTER_ID, "-s", "-N"], "give only one of --standalone"),
        (["-t", CLUSTER_ID, "-I", "1@h:1"], "'h' is not HOST:PORT"),
        (["-t", CLUSTER_ID, "-I", "x@h:1:" + ONE], "is not of the form ID@HOST:PORT:DIRECTORYID"),
        (["-t", CLUSTER_ID, "-I", f"1@h:1:{ONE},1@h:2:{TWO}"], "controller 1 is there twice"),
        (["-t", CLUSTER_ID, "-I", "1@h:1:AAAA"], "not a Kafka uuid"),
        (
            ["-t", CLUSTER_ID, "-s", "-r", "3.8-IV0"],
            "3.8-IV0 has no dynamic quorums: 3.9-IV0 is the oldest that has",
        ),
        (["-t", CLUSTER_ID, "-s", "-r", "5.0"], "'5.0' is no release"),
        (
            ["-t", CLUSTER_ID, "-s", "-r", "4.0", "-f", "metadata.version=25"],
            "give --release-version or --feature",
        ),
        (
            ["-t", CLUSTER_ID, "-s", "-f", "kraft.version=0"],
            "kraft.version=0: it is 1 with --standalone",
        ),
        (
            ["-t", CLUSTER_ID, "-s", "-f", "group.version"],
            "'group.version' is not of the form NAME=LEVEL",
        ),
        (["-t", CLUSTER_ID, "-s", "-f", "nothing=1"], "nothing is no feature"),
        (["-t", CLUSTER_ID, "-s", "-S", "SCRAM-SHA-256=[name=a]"], "give one of password and"),
        (
            ["-t", CLUSTER_ID, "-N", "-r", "3.4-IV0", "-S", "SCRAM-SHA-256=[name=a,password=b]"],
            "--add-scram: 3.4-IV0 has no SCRAM users: 3.5-IV2 is the oldest that has",
        ),
        (
            ["-t", CLUSTER_ID, "-s", "--listeners", "CONTROLLER://h:0,PLAINTEXT://h:1"],
            "needs a fixed port",
        ),
        (
            ["-t", CLUSTER_ID, "-s", "--node-id", "x"],
            "node.id (--node-id): 'x' is not a whole number",
        ),
        (["-t", CLUSTER_ID, "-s", "-c", "/not/there"], "/not/there: cannot be read"),
    ],
)
def test_contradicting_options_are_refused(
    arguments: Sequence[str], what: str, tmp_path: Path
) -> None:
    done = run("--data-dir", str(tmp_path / "data"), *arguments)
    assert done.exit_code == 2
    assert what in " ".join(done.stderr.split())
    assert not (tmp_path / "data").exists()


def test_static_voters_and_dynamic_ones(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text("controller.quorum.voters=1@127.0.0.1:9093\n")
    done = run("-t", CLUSTER_ID, "--data-dir", str(tmp_path / "data"), "-c", str(file), "-s")
    assert done.exit_code == 2
    assert (
        "controller.quorum.voters names the voters of a static quorum: remove it, or --standalone"
        in done.stderr
    )


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("-t", CLUSTER_ID, "-s", "--data-dir", str(tmp_path / "file" / "data"))
    assert done.exit_code == 1
    assert "File exists" in done.stderr


def test_broker_is_formatted_without_voters(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text(
        "process.roles=broker\nnode.id=11\n"
        f"controller.quorum.bootstrap.servers=ctl1:9093\ndata.dir={tmp_path}/data\n"
    )
    done = run("-t", CLUSTER_ID, "-c", str(file))
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["node.id"], facts["voters"]) == (11, None)
    refused = run("-t", CLUSTER_ID, "-c", str(file), "--standalone")
    assert refused.exit_code == 2 and "--standalone is for a controller" in refused.output


def test_directory_is_formatted_without_the_modules_of_a_server(tmp_path: Path) -> None:
    """A start takes the time of its imports."""
    arguments = ["format", "-t", CLUSTER_ID, "--data-dir", str(tmp_path), "--standalone"]
    code = (
        "import sys; from gateway.cli import main; main(sys.argv[1:], standalone_mode=False);"
        " print([name for name in ('trio', 'gateway.quorum.raft') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
