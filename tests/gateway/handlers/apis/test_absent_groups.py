"""Requests of share groups and streams groups get the answers of Kafka 4.4.0 without them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import pytest

from gateway.handlers.apis.absent_groups import HANDLERS
from gateway.ports.streamed import Streamed
from kwire.messages.read_share_group_state_request import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.registry import response_type
from kwire.uuid import Uuid
from tests.gateway.handlers.world import Rules, World, over_the_wire

#: The bodies that a broker of Kafka answered while share.version and streams.version were 0, by API
#: and version: 4.4.0 to requests for the state of a share group and to those that 4.3.1 does not
#: have, 4.3.1 to all others.
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
    ("initialize_share_group_state", 0): (
        "0200112233445566778899aabbccddeeff030000000000104d556e61626c6520746f20696e697469616c"
        "697a652073686172652067726f75702073746174653a2054686973206973206e6f742074686520636f72"
        "7265637420636f6f7264696e61746f722e000000000100104d556e61626c6520746f20696e697469616c"
        "697a652073686172652067726f75702073746174653a2054686973206973206e6f742074686520636f72"
        "7265637420636f6f7264696e61746f722e000000"
    ),
    ("read_share_group_state", 0): (
        "0200112233445566778899aabbccddeeff0300000000001047556e61626c6520746f2072656164207368"
        "6172652067726f75702073746174653a2054686973206973206e6f742074686520636f72726563742063"
        "6f6f7264696e61746f722e000000000000000000000000010000000001001047556e61626c6520746f20"
        "726561642073686172652067726f75702073746174653a2054686973206973206e6f742074686520636f"
        "727265637420636f6f7264696e61746f722e00000000000000000000000001000000"
    ),
    ("write_share_group_state", 0): (
        "0200112233445566778899aabbccddeeff0300000000001048556e61626c6520746f2077726974652073"
        "686172652067726f75702073746174653a2054686973206973206e6f742074686520636f727265637420"
        "636f6f7264696e61746f722e0000000001001048556e61626c6520746f20777269746520736861726520"
        "67726f75702073746174653a2054686973206973206e6f742074686520636f727265637420636f6f7264"
        "696e61746f722e000000"
    ),
    ("write_share_group_state", 1): (
        "0200112233445566778899aabbccddeeff0300000000001048556e61626c6520746f2077726974652073"
        "686172652067726f75702073746174653a2054686973206973206e6f742074686520636f727265637420"
        "636f6f7264696e61746f722e0000000001001048556e61626c6520746f20777269746520736861726520"
        "67726f75702073746174653a2054686973206973206e6f742074686520636f727265637420636f6f7264"
        "696e61746f722e000000"
    ),
    ("delete_share_group_state", 0): (
        "0200112233445566778899aabbccddeeff0300000000001049556e61626c6520746f2064656c65746520"
        "73686172652067726f75702073746174653a2054686973206973206e6f742074686520636f7272656374"
        "20636f6f7264696e61746f722e0000000001001049556e61626c6520746f2064656c6574652073686172"
        "652067726f75702073746174653a2054686973206973206e6f742074686520636f727265637420636f6f"
        "7264696e61746f722e000000"
    ),
    ("read_share_group_state_summary", 0): (
        "0200112233445566778899aabbccddeeff030000000000104f556e61626c6520746f2072656164207368"
        "6172652067726f75702073746174652073756d6d6172793a2054686973206973206e6f74207468652063"
        "6f727265637420636f6f7264696e61746f722e0000000000000000000000000000000000000000010010"
        "4f556e61626c6520746f20726561642073686172652067726f75702073746174652073756d6d6172793a"
        "2054686973206973206e6f742074686520636f727265637420636f6f7264696e61746f722e0000000000"
        "0000000000000000000000000000"
    ),
    ("read_share_group_state_summary", 1): (
        "0200112233445566778899aabbccddeeff030000000000104f556e61626c6520746f2072656164207368"
        "6172652067726f75702073746174652073756d6d6172793a2054686973206973206e6f74207468652063"
        "6f727265637420636f6f7264696e61746f722e00000000000000000000000000000000ffffffff000000"
        "000100104f556e61626c6520746f20726561642073686172652067726f75702073746174652073756d6d"
        "6172793a2054686973206973206e6f742074686520636f727265637420636f6f7264696e61746f722e00"
        "000000000000000000000000000000ffffffff000000"
    ),
    ("streams_group_heartbeat", 1): (
        "0000000000230001000000000000000000000000ffffffffffffffff0100000000000000000000"
    ),
    ("streams_group_describe", 1): (
        "00000000040023000267010000000000000000ff0180000000ff00000000230001010000"
        "000000000000ff0180000000ff0000000023000267010000000000000000ff0180000000ff00000000"
    ),
    ("streams_group_topology_description_update", 0): "0000000000230000",
}
_TOPIC_ID: Final = bytes.fromhex("00112233445566778899aabbccddeeff")
#: A topic of a request for the state of a share group.
_TOPIC: Final = {"topic_id": _TOPIC_ID, "partitions": [{"partition": 0}, {"partition": 1}]}
_STATE_APIS: Final = tuple(
    dict.fromkeys(
        name for name, _ in _OF_KAFKA if name.endswith(("_group_state", "_state_summary"))
    )
)
_GROUPS: Final[dict[str, dict[str, Any]]] = {
    "share_group_describe": {"group_ids": ["g", "", "g"], "include_authorized_operations": True},
    "streams_group_describe": {"group_ids": ["g", "", "g"], "include_authorized_operations": True},
    **{key: {"group_id": "g", "topics": [_TOPIC]} for key in _STATE_APIS},
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


def _state(name: str, world: World, *topics: dict[str, Any], group_id: str = "g") -> Any:
    """The partitions of each topic in the answer, with their errors."""
    handler = next(one for one in HANDLERS if one.name == name)
    answer = world.ask(handler, 0, group_id=group_id, topics=list(topics))
    return [
        (topic.topic_id, [(one.partition, one.error_code) for one in topic.partitions])
        for topic in answer.results
    ]


@pytest.mark.parametrize("name", _STATE_APIS)
def test_partition_of_a_share_group_that_is_named_again_is_answered_once(name: str) -> None:
    again = {"topic_id": _TOPIC_ID, "partitions": [{"partition": 1}, {"partition": 7}]}
    refused = [(index, ErrorCode.NOT_COORDINATOR) for index in (0, 1, 7)]
    assert _state(name, World(), _TOPIC, again) == [(_TOPIC_ID, refused)]


@pytest.mark.parametrize("name", _STATE_APIS)
def test_share_group_without_a_name_has_an_empty_answer(name: str) -> None:
    assert _state(name, World(), _TOPIC, group_id="") == []


@pytest.mark.parametrize("name", _STATE_APIS)
def test_topic_without_partitions_empties_every_answer_but_that_of_initialize(name: str) -> None:
    none = {"topic_id": _TOPIC_ID, "partitions": []}
    answered = bool(_state(name, World(), none, _TOPIC))
    assert answered is (name == "initialize_share_group_state")
    assert _state(name, World(), none) == []


@pytest.mark.parametrize("name", _STATE_APIS)
def test_state_of_a_share_group_is_refused_to_clients_in_every_partition(name: str) -> None:
    world = World(authorizer=Rules({("CLUSTER_ACTION", "CLUSTER", "*")}))
    refused = [(index, ErrorCode.CLUSTER_AUTHORIZATION_FAILED) for index in (0, 1)]
    assert _state(name, world, _TOPIC, _TOPIC, group_id="") == [(_TOPIC_ID, refused)] * 2


def test_refusal_of_many_partitions_of_a_share_group_names_each() -> None:
    many = {"topic_id": _TOPIC_ID, "partitions": [{"partition": index} for index in range(2000)]}
    refused = [(index, ErrorCode.NOT_COORDINATOR) for index in range(2000)]
    assert _state("read_share_group_state", World(), many) == [(_TOPIC_ID, refused)]


def test_long_refusal_of_a_share_group_is_made_in_slices_and_streamed() -> None:
    topics = [
        ReadStateData(
            topic_id=Uuid(index.to_bytes(16, "big")), partitions=[PartitionData(partition=7)]
        )
        for index in range(2000)
    ]
    handler = next(one for one in HANDLERS if one.api_key == ApiKey.READ_SHARE_GROUP_STATE)
    work = handler.handle(
        ReadShareGroupStateRequest(group_id="g", topics=topics), World().context(0)
    )
    assert isinstance(work, Generator)
    slices = 0
    with pytest.raises(StopIteration) as end:
        while True:
            next(work)
            slices += 1
    assert slices == 2000 and isinstance(end.value.value, Streamed)
    answer = over_the_wire(end.value.value, 0)
    errors = [one.partitions[0].error_code for one in answer.results]
    assert errors == [ErrorCode.NOT_COORDINATOR] * 2000
