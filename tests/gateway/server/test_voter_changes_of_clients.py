"""AddRaftVoter and RemoveRaftVoter at the listeners for clients: each node passes them to the
leader, which authorizes the client.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest

from gateway.log.metadata.formatting import Formatting, format_directory, random_uuid
from gateway.security.scram_credentials import parse_credentials
from gateway.security.standard_authorizer import STANDARD_AUTHORIZER
from kwire.message import Message
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.server.harness import connect, run
from tests.gateway.server.own_nodes import CLUSTER_ID, cluster
from tests.gateway.server.test_scram_listeners import MECHANISM, PASSWORD, ask, log_in
from tests.waiting import until_async

VOTER = Uuid(bytes([7] * 16))
ADD = AddRaftVoterRequest(
    cluster_id=CLUSTER_ID,
    timeout_ms=10_000,
    voter_id=9,
    voter_directory_id=VOTER,
    listeners=[Listener(name="CONTROLLER", host="127.0.0.1", port=1)],
)
REMOVE = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=9, voter_directory_id=VOTER)
CHANGES = [(ADD, 1), (REMOVE, 0)]


@pytest.mark.parametrize(("change", "version"), CHANGES, ids=["add", "remove"])
def test_every_node_gives_the_answer_of_the_leader(
    change: Message, version: int, tmp_path: Path
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 3) as quorum:
            await quorum.start()
            leader = await quorum.leader()
            expected = await leader.ask(change, version, "CONTROLLER")
            # Static voters: the quorum itself has decided.
            assert expected.error_code == ErrorCode.UNSUPPORTED_VERSION
            for node in quorum.nodes.values():
                answer = await node.ask(change, version)
                assert answer.to_json(version) == expected.to_json(version)

    run(main)


def test_leader_refuses_a_client_that_may_not_alter_the_cluster(tmp_path: Path) -> None:
    users = parse_credentials(
        [f"{MECHANISM}=[name=alice,password={PASSWORD}]"], secrets.token_bytes
    )
    for id in (1, 2, 3):
        where = Formatting(CLUSTER_ID, id, random_uuid(), credentials=users)
        format_directory(tmp_path / f"node{id}", where)

    async def main() -> None:
        more: dict[str, Any] = {
            "listener_security_protocol_map": {
                "PLAINTEXT": "SASL_PLAINTEXT",
                "CONTROLLER": "PLAINTEXT",
            },
            "authorizer_class_name": STANDARD_AUTHORIZER,
            "super_users": "User:ANONYMOUS;User:admin",
            "security": {"sasl.enabled.mechanisms": MECHANISM},
        }
        async with cluster(tmp_path, 3, **more) as quorum:
            await quorum.start()
            await quorum.leader()
            nodes = quorum.nodes.values()
            await until_async(
                lambda: all(len(node.quorum.image.scram) == 1 for node in nodes), "the user"
            )
            for node in nodes:
                async with await connect(node.ports["PLAINTEXT"]) as client:
                    await log_in(client)
                    for change, version in CHANGES:
                        answer = await ask(client, change, version)
                        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run(main)
