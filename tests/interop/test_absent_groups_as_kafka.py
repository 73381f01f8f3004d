"""Share groups and streams groups are refused as by Kafka 4.3.1 whose features for them are off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from kwire import Message
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
from kwire.protocol import ApiKey
from tests.interop.clients import need_java
from tools.gateway_process import gateway
from tools.kafka import FAST_START, kafka
from tools.wire_client import WireClient

pytestmark = pytest.mark.interop

_OFF: Final = ["--feature", "share.version=0", "--feature", "streams.version=0"]
_APIS: Final = (
    ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE, ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
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
            for version in served.get(key, ())[-1:]:
                answer = client.call(request, version)
                found[f"{number} {request.NAME} {version}"] = answer.to_json(version)
    return found


def test_share_and_streams_groups_are_refused_as_by_kafka_without_them() -> None:
    need_java()
    with (
        kafka(options=FAST_START, format_arguments=_OFF) as cluster,
        gateway() as server,
    ):
        expected, found = _answers(cluster.bootstrap), _answers(server.bootstrap)
    assert found == expected
