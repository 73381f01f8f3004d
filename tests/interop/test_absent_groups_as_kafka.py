"""Share groups and streams groups are refused as by Kafka 4.4.0 whose features for them are off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from kwire import Message
from kwire.messages import delete_share_group_state_request as delete_state
from kwire.messages import initialize_share_group_state_request as initialize_state
from kwire.messages import read_share_group_state_request as read_state
from kwire.messages import read_share_group_state_summary_request as read_summary
from kwire.messages import write_share_group_state_request as write_state
from kwire.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kwire.messages.list_groups_request import ListGroupsRequest
from kwire.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kwire.messages.share_fetch_request import ShareFetchRequest
from kwire.messages.share_group_describe_request import ShareGroupDescribeRequest
from kwire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kwire.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kwire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from kwire.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from kwire.protocol import ApiKey
from tests.interop.clients import need_java
from tools.gateway_process import gateway
from tools.kafka import FAST_START, kafka
from tools.wire_client import WireClient

pytestmark = pytest.mark.interop

_TOPIC_ID: Final = bytes.fromhex("00112233445566778899aabbccddeeff")
_OFF: Final = ["--feature", "share.version=0", "--feature", "streams.version=0"]
#: Requests for the state of a share group, with the structs of their topics and partitions.
_OF_STATE: Final[tuple[tuple[Any, Any, Any], ...]] = (
    (
        initialize_state.InitializeShareGroupStateRequest,
        initialize_state.InitializeStateData,
        initialize_state.PartitionData,
    ),
    (
        read_state.ReadShareGroupStateRequest,
        read_state.ReadStateData,
        read_state.PartitionData,
    ),
    (
        write_state.WriteShareGroupStateRequest,
        write_state.WriteStateData,
        write_state.PartitionData,
    ),
    (
        delete_state.DeleteShareGroupStateRequest,
        delete_state.DeleteStateData,
        delete_state.PartitionData,
    ),
    (
        read_summary.ReadShareGroupStateSummaryRequest,
        read_summary.ReadStateSummaryData,
        read_summary.PartitionData,
    ),
)
_APIS: Final = (
    ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE, ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS, ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE, ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
)  # fmt: skip


def _requests() -> Iterator[Message]:
    """Requests with members, groups and topics, and without."""
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0, 1])]
    yield ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"])
    yield ShareGroupHeartbeatRequest()
    yield ShareGroupDescribeRequest(group_ids=["g", "", "g"], include_authorized_operations=True)
    yield ShareGroupDescribeRequest()
    yield ShareFetchRequest(group_id="g", member_id="m", max_wait_ms=10)
    yield ShareAcknowledgeRequest(group_id="g", member_id="m")
    yield StreamsGroupHeartbeatRequest(group_id="g", member_id="m", rebalance_timeout_ms=1000)
    yield StreamsGroupHeartbeatRequest()
    yield StreamsGroupDescribeRequest(group_ids=["g", "", "g"], include_authorized_operations=True)
    yield StreamsGroupDescribeRequest()
    yield DescribeShareGroupOffsetsRequest(
        groups=[
            DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=topics),
            DescribeShareGroupOffsetsRequestGroup(group_id="", topics=None),
        ]
    )
    yield AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name="t",
                partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0)],
            )
        ],
    )
    yield DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    )
    yield StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="m")
    for request, topic, partition in _OF_STATE:
        named = topic(topic_id=_TOPIC_ID, partitions=[partition(partition=i) for i in (0, 1, 0)])
        unnamed = topic(topic_id=_TOPIC_ID, partitions=[])
        yield request()
        yield request(group_id="g", topics=[named])
        yield request(group_id="g", topics=[named, named])
        yield request(group_id="g", topics=[named, unnamed])
        yield request(group_id="g", topics=[unnamed])
        yield request(group_id="", topics=[named])
    yield ListGroupsRequest(types_filter=["share", "Streams"], states_filter=["stable"])
    yield ListGroupsRequest(types_filter=["nosuch"], states_filter=["nosuch"])


def _answers(address: str) -> dict[str, Any]:
    asked = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    with WireClient(address) as client:
        listed = client.call(asked, 4).api_keys
        served = {one.api_key: range(one.min_version, one.max_version + 1) for one in listed}
        found: dict[str, Any] = {key.name: served.get(key) for key in _APIS}
        for number, request in enumerate(_requests()):
            key = request.API_KEY
            assert key is not None
            versions = served.get(key, range(0))
            for version in versions if key in _APIS else versions[-1:]:
                answer = client.call(request, version)
                found[f"{number} {request.NAME} {version}"] = answer.to_json(version)
    return found


def test_share_and_streams_groups_are_refused_as_by_kafka_without_them() -> None:
    need_java()
    with (
        kafka(version="4.4.0", options=FAST_START, format_arguments=_OFF) as cluster,
        gateway() as server,
    ):
        expected, found = _answers(cluster.bootstrap), _answers(server.bootstrap)
    assert found == expected
