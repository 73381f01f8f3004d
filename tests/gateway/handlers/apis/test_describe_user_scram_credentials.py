"""AlterUserScramCredentials and DescribeUserScramCredentials: descriptions have all but the
secrets.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import describe_user_scram_credentials
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.protocol import ErrorCode
from tests.gateway.handlers.admin_handlers import alter_user_scram_credentials
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import MemoryQuorum, World


def told(world: World, *users: str, **more: Any) -> dict[str, Any]:
    asked = [{"name": user} for user in users] or None
    answer = world.ask(describe_user_scram_credentials, 0, users=asked, **more)
    assert answer.error_code == 0
    return {
        one.user: one.error_code
        or [(info.mechanism, info.iterations) for info in one.credential_infos]
        for one in answer.results
    }


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_altered_credentials_are_described_without_secrets(listener: str) -> None:
    world = OwnWorld()
    plain = {"salt": b"s", "salted_password": b"p"}
    for name, mechanism, iterations in (("ann", 2, 8192), ("ben", 1, 4096), ("ann", 1, 5000)):
        change = {"name": name, "mechanism": mechanism, "iterations": iterations, **plain}
        (result,) = world.ask(
            alter_user_scram_credentials, 0, listener=listener, upsertions=[change]
        ).results
        assert (result.user, result.error_code) == (name, 0)
    assert told(world, listener=listener) == {"ann": [(1, 5000), (2, 8192)], "ben": [(1, 4096)]}
    assert told(world, "ben", "eve", listener=listener) == {
        "ben": [(1, 4096)],
        "eve": ErrorCode.RESOURCE_NOT_FOUND,
    }
    assert told(world, "ben", "ann", "ben") == {
        "ben": ErrorCode.DUPLICATE_RESOURCE,
        "ann": [(1, 5000), (2, 8192)],
    }
    dropped = world.ask(
        alter_user_scram_credentials, 0, deletions=[{"name": "ann", "mechanism": 2}]
    ).results
    assert [one.error_code for one in dropped] == [0]
    assert told(world, "ann") == {"ann": [(1, 5000)]}


def test_null_and_an_empty_list_request_all_users() -> None:
    world = World(quorum=MemoryQuorum())
    assert told(world) == {}
    world.quorum_image.scram[1, "ann"] = UserScramCredentialRecord(
        name="ann", mechanism=1, iterations=4096
    )
    assert told(world) == {"ann": [(1, 4096)]}
    (result,) = world.ask(describe_user_scram_credentials, 0, users=[]).results
    assert result.user == "ann"
