"""Registers brokers of a run with a controller, sends their heartbeats, and reads the records.

A broker of a run exists in requests only: it has no listener, and an id that no cluster uses. Each
is unregistered when its rule ends. Nothing here judges a server.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.conformance import quorum as requests
from kwire.conformance.fixtures import after_election
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import Quorum
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kwire.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.unregister_broker_request import UnregisterBrokerRequest
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import decode_batches, decode_metadata_record
from kwire.uuid import Uuid

#: Ids of brokers of a run begin here. Clusters number their nodes from 0 on.
_FIRST_ID: Final = 1_900_000_000
#: The offset of a broker that has read all metadata, whatever there is.
ALL_READ: Final = 1 << 40
NOTHING_READ: Final = 0
_DELETE_BY_NAME: Final = range(1, 6)


@dataclass
class Broker:
    """A broker of a run. ``epoch``: of its registration, -1 before it."""

    id: int = field(default_factory=lambda: _FIRST_ID + secrets.randbelow(200_000_000))
    incarnation: Uuid = field(default_factory=lambda: Uuid(secrets.token_bytes(16)))
    directory: Uuid = field(default_factory=lambda: Uuid(secrets.token_bytes(16)))
    epoch: int = -1


def registration(probe: Probe, quorum: Quorum, broker: Broker, **other: Any) -> Message:
    """The registration of a broker that supports every feature as far as the server does."""
    values: dict[str, Any] = {
        "broker_id": broker.id,
        "cluster_id": quorum.cluster_id or "",
        "incarnation_id": broker.incarnation,
        "listeners": [Listener(name="PLAINTEXT", host="127.0.0.1", port=1)],
        "features": _features(probe),
        "log_dirs": [broker.directory],
        "rack": None,
    }
    return BrokerRegistrationRequest(**{**values, **other})


def _features(probe: Probe) -> list[Feature]:
    request = ApiVersionsRequest(client_software_name="kwire", client_software_version="1")
    answer = probe.call(request, probe.need(ApiKey.API_VERSIONS, 3, 4))
    return [
        Feature(
            name=one.name,
            min_supported_version=one.min_version,
            max_supported_version=one.max_version,
        )
        for one in answer.supported_features
    ]


def register(probe: Probe, quorum: Quorum, broker: Broker, **other: Any) -> Any:
    """Register a broker, and keep its epoch. Returns the answer, whatever its error."""
    refused = False
    request = registration(probe, quorum, broker, **other)
    probe.after_rule(
        f"broker {broker.id}", lambda: None if refused else _unregister_at_end(probe, broker.id)
    )
    answer = probe.call(request)
    if answer.error_code == ErrorCode.NONE:
        broker.epoch = answer.broker_epoch
    else:
        refused = True
    return answer


def registered(probe: Probe, quorum: Quorum) -> Broker:
    """Return a new broker, registered and fenced. Fails the rule if it is refused."""
    broker = Broker()
    answer = register(probe, quorum, broker)
    probe.expect_error(answer.error_code, ErrorCode.NONE, where="the registration")
    return broker


def serving(probe: Probe, quorum: Quorum) -> Broker:
    """Return a new broker that has read all metadata, and is unfenced."""
    broker = registered(probe, quorum)
    answer = heartbeat(probe, broker)
    probe.expect(
        answer.error_code == ErrorCode.NONE and not answer.is_fenced,
        "a broker that has read all metadata stays fenced",
    )
    return broker


def heartbeat(probe: Probe, broker: Broker, offset: int = ALL_READ, **wants: Any) -> Any:
    """Send a heartbeat, and return its answer."""
    values = {"broker_epoch": broker.epoch, "current_metadata_offset": offset, **wants}
    return probe.call(BrokerHeartbeatRequest(broker_id=broker.id, **values))


def unregister(probe: Probe, broker_id: int) -> int:
    """Unregister a broker, and return the error of the answer."""
    return int(probe.call(UnregisterBrokerRequest(broker_id=broker_id)).error_code)


def _unregister_at_end(probe: Probe, broker_id: int) -> None:
    with probe.other_probe() as other:
        error = after_election(other, lambda: unregister(other, broker_id))
        other.expect_error(error, ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED)


def create_topic(probe: Probe, *partitions: list[int]) -> Any:
    """Create a topic of the run with these replicas, and return it as the answer has it."""
    name = probe.session.new_name()
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
        for index, ids in enumerate(partitions)
    ]
    topic = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    probe.after_rule(f"topic {name}", lambda: _delete_at_end(probe, name))
    version = probe.need(ApiKey.CREATE_TOPICS, 7)  # the first whose answer has the topic id
    answer = probe.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), version)
    probe.expect(len(answer.topics) == 1, f"the answer has {len(answer.topics)} topics, not 1")
    probe.expect_error(answer.topics[0].error_code, ErrorCode.NONE, where="the new topic")
    return answer.topics[0]


def delete_topic(probe: Probe, name: str) -> int:
    """Delete a topic, and return the error of the answer."""
    version = probe.newest(ApiKey.DELETE_TOPICS)
    request = DeleteTopicsRequest(timeout_ms=10_000)
    if version in _DELETE_BY_NAME:
        request.topic_names = [name]
    else:
        request.topics = [DeleteTopicState(name=name)]
    return int(probe.call(request, version).responses[0].error_code)


def _delete_at_end(probe: Probe, name: str) -> None:
    with probe.other_probe() as other:
        error = after_election(other, lambda: delete_topic(other, name))
        other.expect_error(error, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


# --- the metadata log -----------------------------------------------------------------------------


def log_end(probe: Probe, quorum: Quorum) -> int:
    """Return the end of the leader's log."""
    return requests.end_of_epoch(probe, quorum, quorum.epoch)[1]


def records_from(probe: Probe, quorum: Quorum, offset: int) -> list[tuple[int, Message]]:
    """Return (offset, record) of the metadata records from ``offset`` on, control records apart."""
    found: list[tuple[int, Message]] = []
    while True:
        partition = requests.fetched(
            probe, quorum, offset=offset, last_epoch=quorum.epoch, max_bytes=1 << 20
        )
        probe.expect_error(partition.error_code, ErrorCode.NONE, where="the Fetch")
        try:
            batches = list(decode_batches(bytes(partition.records or b"")))
            found += [
                (record.offset, decode_metadata_record(record.value or b"")[2])
                for batch in batches
                if not batch.header.is_control
                for record in batch.records
                if record.offset >= offset
            ]
        except DecodeError as error:
            probe.fail(f"the records from offset {offset} on are none: {error}")
        if not batches:
            return found
        probe.expect(
            batches[-1].header.next_offset > offset,
            f"the records from offset {offset} on end at {batches[-1].header.last_offset}",
        )
        offset = batches[-1].header.next_offset
