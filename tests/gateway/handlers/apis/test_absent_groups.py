"""Requests of share groups and streams groups get the answers of Kafka 4.3.1 without them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gateway.handlers.apis.absent_groups import HANDLERS
from kwire.registry import response_type
from tests.gateway.handlers.world import World

#: The bodies that a broker of Kafka 4.3.1 answered while share.version and streams.version were 0,
#: by API and version.
_OF_KAFKA: Final = {
    ("share_group_heartbeat", 1): "00000000002300000000000000000000ff00",
    ("share_group_describe", 1): (
        "000000000400230002670100000000000000000101800000000000230001010000000000"
        "0000000101800000000000230002670100000000000000000101800000000000"
    ),
    ("share_fetch", 1): "0000000000230000000000010100",
    ("share_fetch", 2): "0000000000230000000000010100",
    ("share_acknowledge", 1): "00000000002300010100",
    ("share_acknowledge", 2): "0000000000230000000000010100",
    ("streams_group_heartbeat", 0): (
        "00000000002300010000000000000000000000000000000001000000000000000000"
    ),
    ("streams_group_describe", 0): (
        "00000000040023000267010000000000000000ff01800000000000230001010000000000"
        "000000ff0180000000000023000267010000000000000000ff01800000000000"
    ),
    ("describe_share_group_offsets", 0): "00000000030267010023000001010023000000",
    ("describe_share_group_offsets", 1): "00000000030267010023000001010023000000",
    ("alter_share_group_offsets", 0): (
        "000000000023255468652076657273696f6e206f6620415049206973206e6f7420737570706f727465642e0100"
    ),
    ("delete_share_group_offsets", 0): (
        "000000000023255468652076657273696f6e206f6620415049206973206e6f7420737570706f727465642e0100"
    ),
}
_GROUPS: Final[dict[str, dict[str, Any]]] = {
    "share_group_describe": {"group_ids": ["g", "", "g"], "include_authorized_operations": True},
    "streams_group_describe": {"group_ids": ["g", "", "g"], "include_authorized_operations": True},
    "describe_share_group_offsets": {
        "groups": [
            {"group_id": "g", "topics": [{"topic_name": "t", "partitions": [0, 1]}]},
            {"group_id": "", "topics": None},
        ]
    },
}


def test_every_version_of_every_api_is_compared_with_kafka() -> None:
    served = {(handler.name, version) for handler in HANDLERS for version in handler.versions}
    assert served == _OF_KAFKA.keys()


@pytest.mark.parametrize(("name", "version"), _OF_KAFKA)
def test_request_is_refused_with_the_bytes_of_kafka(name: str, version: int) -> None:
    handler = next(one for one in HANDLERS if one.name == name)
    answer = World().ask(handler, version, **_GROUPS.get(name, {}))
    expected = response_type(handler.api_key).decode(
        bytes.fromhex(_OF_KAFKA[name, version]), version
    )
    assert answer == expected
