"""The first users of a secured cluster: those of ``kwire format --add-scram`` can log in, and a
cluster that would let no super user in does not start.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.config.config import Config, ConfigError, Listener
from gateway.log.metadata.formatting import Formatting, format_directory, random_uuid
from gateway.security.scram_credentials import parse_credentials
from gateway.security.standard_authorizer import STANDARD_AUTHORIZER
from tests.gateway.server.harness import connect, run
from tests.gateway.server.own_nodes import CLUSTER_ID, QUICK, OwnNode, cluster, own_node
from tests.gateway.server.test_scram_listeners import MECHANISM, PASSWORD, log_in
from tests.waiting import until_async

USERS = parse_credentials([f"{MECHANISM}=[name=alice,password={PASSWORD}]"], secrets.token_bytes)
PROTOCOLS = {"PLAINTEXT": "SASL_PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
SECURED: dict[str, Any] = {
    "listener_security_protocol_map": PROTOCOLS,
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "super_users": "User:ANONYMOUS;User:alice",
    "security": {"sasl.enabled.mechanisms": MECHANISM},
}
#: The controller listener is not for clients, and ANONYMOUS is the node itself there.
LOCKED = "no super user can log in: User:ANONYMOUS, User:alice have no password"


def lone(directory: Path, **more: Any) -> Config:
    listeners = (Listener("PLAINTEXT", "127.0.0.1", 0), Listener("CONTROLLER", "127.0.0.1", 0))
    return Config(listeners=listeners, data_dir=directory, **{**QUICK, **SECURED, **more})


async def logs_in(node: OwnNode) -> bool:
    async with await connect(node.ports["PLAINTEXT"]) as client:
        await log_in(client)
    return True


def test_user_of_the_formatting_logs_in_at_a_quorum_of_one(tmp_path: Path) -> None:
    format_by_command(tmp_path, "--standalone", *ALICE)

    async def main() -> None:
        async with own_node(lone(tmp_path)) as node:
            await until_async(lambda: len(node.quorum.image.scram) == 1, "the first user")
            assert await logs_in(node)

    run(main)


def test_user_of_the_formatting_logs_in_at_each_node_of_a_quorum_of_three(tmp_path: Path) -> None:
    for id in (1, 2, 3):
        where = Formatting(CLUSTER_ID, id, random_uuid(), credentials=USERS)
        format_directory(tmp_path / f"node{id}", where)

    async def main() -> None:
        async with cluster(tmp_path, 3, **SECURED) as quorum:
            await quorum.start()
            nodes = quorum.nodes.values()
            await until_async(
                lambda: all(len(node.quorum.image.scram) == 1 for node in nodes), "the first user"
            )
            assert [await logs_in(node) for node in nodes] == [True] * 3

    run(main)


ALICE = ("--add-scram", f"{MECHANISM}=[name=alice,password={PASSWORD}]")


def format_by_command(directory: Path, *arguments: str) -> None:
    line = ["format", "-t", CLUSTER_ID, "--data-dir", str(directory), *arguments]
    done = CliRunner().invoke(main, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("is_formatted", [False, True], ids=["empty directory", "formatted"])
def test_new_cluster_that_lets_no_super_user_in_does_not_start(
    is_formatted: bool, tmp_path: Path
) -> None:
    if is_formatted:
        format_by_command(tmp_path, "--standalone")

    async def main() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            async with own_node(lone(tmp_path)):
                pass
        assert caught.group_contains(ConfigError, match=LOCKED, depth=None)

    run(main)
    assert is_formatted or not [*tmp_path.iterdir()], "the directory is not formatted without users"


def properties(directory: Path, **more: str) -> Path:
    file = directory / "server.properties"
    values = {
        "data.dir": str(directory / "data"),
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": ",".join(f"{a}:{b}" for a, b in PROTOCOLS.items()),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:alice",
        "listener.name.plaintext.sasl.enabled.mechanisms": MECHANISM,
        **more,
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return file


def check(file: Path) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["serve", "--config", str(file), "--check-config"])
    return done.exit_code, done.output


def test_check_config_refuses_a_new_cluster_that_lets_no_super_user_in(tmp_path: Path) -> None:
    code, said = check(properties(tmp_path))
    assert code == 2 and LOCKED in said and "kwire format --add-scram" in said
    format_by_command(tmp_path / "data", "--standalone", *ALICE)
    assert check(properties(tmp_path)) == (0, "The configuration is good.\n")


def test_check_config_warns_where_other_static_voters_may_have_the_users(tmp_path: Path) -> None:
    voters = "1@127.0.0.1:9093,2@127.0.0.1:9094"
    file = properties(tmp_path, **{"controller.quorum.voters": voters, "cluster.id": CLUSTER_ID})
    code, said = check(file)
    assert code == 0 and f"kwire serve: warning: super.users: {LOCKED}" in said


def test_check_config_names_scram_among_the_first_nodes(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    jaas = f'{module} username="node" password="x";'
    both = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "SASL_PLAINTEXT"}
    lines = {
        "data.dir": str(tmp_path / "data"),
        "cluster.id": CLUSTER_ID,
        "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": ",".join(f"{a}:{b}" for a, b in both.items()),
        "listener.name.controller.sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.controller.{MECHANISM.lower()}.sasl.jaas.config": jaas,
        "sasl.mechanism.controller.protocol": MECHANISM,
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    code, said = check(file)
    assert code == 0 and "the first nodes of a quorum cannot log in to each other by it" in said


def test_leader_reports_that_no_super_user_can_log_in(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 3, **SECURED) as quorum:
            await quorum.start()
            counts = [node.ready.reports.counts for node in quorum.nodes.values()]
            await until_async(
                lambda: sum(one["no super user can log in"] for one in counts), "the report"
            )

    run(main)
