"""A leader of a metadata quorum that refuses nothing: it breaks every rule that demands a refusal.

It answers each request with the response's defaults and the partitions of the request, without an
error. It knows who leads, so that the rules find a leader.
"""

from __future__ import annotations

import socket
from typing import Any

from kwire.conformance.catalog import all_rules, select
from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome
from kwire.conformance.runner import Options, run_rules
from kwire.conformance.session import codec_versions
from kwire.frame import frame
from kwire.header import decode_request_header, encode_response_header, peek
from kwire.message import Message
from kwire.messages import fetch_response, fetch_snapshot_response
from kwire.messages.describe_cluster_response import DescribeClusterResponse
from kwire.messages.describe_quorum_response import ReplicaState
from kwire.protocol import ApiKey
from kwire.registry import request_type, response_type
from tests.kwire.conformance.scripted import server

LEADER_ID, EPOCH = 1, 3
#: The APIs that the leader offers: those of a controller.
APIS = tuple(api for api in ApiKey if "controller" in api.listeners and codec_versions(api))
OFFERED = {api: (request_type(api).VERSIONS[0], request_type(api).VERSIONS[-1]) for api in APIS}


def leader(connection: socket.socket, data: bytes) -> bool:
    """Answer a request; the script of ``scripted.server``."""
    api, version, number = peek(data)
    _, start = decode_request_header(data)
    request: Any = request_type(api).decode(data[start:], version)
    answer = _answer(ApiKey(api), request)
    header = encode_response_header(api, version, number)
    connection.sendall(frame(header, answer.encode(version)))
    return True


def _answer(api: ApiKey, request: Any) -> Message:
    answer: Any = response_type(api)()
    if api is ApiKey.DESCRIBE_CLUSTER:
        return DescribeClusterResponse(cluster_id="a cluster", controller_id=LEADER_ID)
    if api is ApiKey.FETCH:
        led = fetch_response.LeaderIdAndEpoch(leader_id=LEADER_ID, leader_epoch=EPOCH)
        answer.responses = _filled(api, request.topics, current_leader=led)
    elif api is ApiKey.FETCH_SNAPSHOT:
        known = fetch_snapshot_response.LeaderIdAndEpoch(leader_id=LEADER_ID, leader_epoch=EPOCH)
        answer.topics = _filled(api, request.topics, current_leader=known, unaligned_records=b"")
    elif api is ApiKey.DESCRIBE_QUORUM:
        answer.topics = _filled(
            api, request.topics, leader_id=LEADER_ID, leader_epoch=EPOCH,
            current_voters=[ReplicaState(replica_id=LEADER_ID)],
        )  # fmt: skip
    elif api in (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH):
        answer.topics = _filled(api, request.topics, leader_id=LEADER_ID, leader_epoch=EPOCH)
    return answer


def _filled(api: ApiKey, topics: Any, **values: Any) -> list[Any]:
    """The topics and partitions of a request, as those of its response."""
    form: Any = response_type(api)
    outer = next(one for one in form.fields() if one.name in ("Topics", "Responses"))
    topic_form: Any = form.struct_class(outer.type)
    inner = next(one for one in topic_form.fields() if one.name == "Partitions")
    partition_form: Any = form.struct_class(inner.type)
    found = []
    for topic in topics:
        partitions = [partition_form(**values) for _ in topic.partitions]
        for partition, asked in zip(partitions, topic.partitions, strict=True):
            index = getattr(asked, "partition", getattr(asked, "partition_index", 0))
            name = "partition_index" if hasattr(partition, "partition_index") else "index"
            setattr(partition, name, index)
        found.append(topic_form(partitions=partitions))
        for name in ("topic_name", "name", "topic_id"):
            if hasattr(topic, name) and hasattr(found[-1], name):
                setattr(found[-1], name, getattr(topic, name))
    return found


def broken_by_it(family: str) -> set[str]:
    """The rules of a family that this leader breaks."""
    rules = select(all_rules(), patterns=[family])
    with server(leader, OFFERED) as target:
        session = open_session(target, 3.0)
        report = run_rules(session, [one for one in rules if not one.alone], Options())
    return {one.rule.id.partition(".")[2] for one in report.results if one.outcome is Outcome.FAIL}


def rules_of(family: str) -> set[str]:
    """The rules of a family but those that run alone, without the family's name."""
    rules = select(all_rules(), patterns=[family])
    return {one.id.partition(".")[2] for one in rules if not one.alone}
