"""Rules of AlterPartition (KIP-497, with KIP-704, KIP-841 and KIP-903).

The partitions belong to topics of the run, on brokers of the run: two that serve, and one that is
fenced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kwire.conformance import brokers
from kwire.conformance.brokers import Broker
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import OTHER_TOPIC, Quorum, require_follower, require_leader
from kwire.conformance.requests import NO_NODE
from kwire.conformance.rule import CONTROLLER, Changes, Family
from kwire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import Uuid

_APIS: Final = (
    *(ApiKey.ALTER_PARTITION, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM, ApiKey.BROKER_REGISTRATION),
    *(ApiKey.BROKER_HEARTBEAT, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS),
)
FAMILY: Final = Family(
    "alter-partition",
    "AlterPartition",
    roles=CONTROLLER,
    apis=_APIS,
    changes=Changes.CLUSTER,
    since="3.3",
    alone=True,
)
_TEXT: Final = "KIP-497"
_ERRORS: Final = "Public Interfaces: errors"
#: From this version on a replica comes with its broker's epoch (KIP-903).
_WITH_EPOCHS: Final = 3
_RECOVERING: Final = 1


@dataclass(frozen=True)
class _Partition:
    """A partition that ``leader`` leads, in sync with ``follower``; ``fenced`` is a replica that is
    not in the ISR.
    """

    quorum: Quorum
    leader: Broker
    follower: Broker
    fenced: Broker
    topic: Uuid


def _partition(probe: Probe) -> _Partition:
    quorum = require_leader(probe)
    leader, follower = brokers.serving(probe, quorum), brokers.serving(probe, quorum)
    fenced = brokers.registered(probe, quorum)
    made = brokers.create_topic(probe, [leader.id, follower.id, fenced.id])
    return _Partition(quorum, leader, follower, fenced, made.topic_id)


def _alter(probe: Probe, at: _Partition, isr: list[Broker], **fields: Any) -> Any:
    """Send a change of the ISR by its leader, and return the answer."""
    version = probe.need(ApiKey.ALTER_PARTITION, 2, 3)
    broker: Broker = fields.pop("broker", at.leader)
    broker_epoch = fields.pop("broker_epoch", broker.epoch)
    topic = fields.pop("topic", at.topic)
    one = PartitionData(**fields)
    if version >= _WITH_EPOCHS:
        one.new_isr_with_epochs = [
            BrokerState(broker_id=replica.id, broker_epoch=replica.epoch) for replica in isr
        ]
    else:
        one.new_isr = [replica.id for replica in isr]
    topics = [TopicData(topic_id=topic, partitions=[one])]
    request = AlterPartitionRequest(broker_id=broker.id, broker_epoch=broker_epoch, topics=topics)
    return probe.call(request, version)


def _result(probe: Probe, answer: Any) -> Any:
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    found = [one for topic in answer.topics for one in topic.partitions]
    probe.expect(len(found) == 1, f"the answer has {len(found)} partitions, not 1")
    return found[0]


def _refused(probe: Probe, isr: Any, *errors: ErrorCode, **fields: Any) -> None:
    at = _partition(probe)
    result = _result(probe, _alter(probe, at, isr(at), **fields))
    probe.expect_error(result.error_code, *errors)


def _both(at: _Partition) -> list[Broker]:
    return [at.leader, at.follower]


def _alone(at: _Partition) -> list[Broker]:
    return [at.leader]


@FAMILY.rule(
    "unknown-broker",
    source=_TEXT,
    section=_ERRORS,
    apis=(ApiKey.ALTER_PARTITION, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM),
    changes=Changes.NOTHING,
    alone=False,
)
def unknown_broker(probe: Probe) -> None:
    """A broker that is not registered changes no ISR: the request is refused with
    STALE_BROKER_EPOCH.
    """
    unknown = Broker(id=NO_NODE, epoch=1)
    at = _Partition(require_leader(probe), unknown, unknown, unknown, OTHER_TOPIC)
    answer = _alter(probe, at, [unknown])
    probe.expect_error(answer.error_code, ErrorCode.STALE_BROKER_EPOCH)


@FAMILY.rule(
    "empty",
    source="QuorumController",
    section="alterPartition",
    apis=(ApiKey.ALTER_PARTITION, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM),
    changes=Changes.NOTHING,
    alone=False,
)
def empty(probe: Probe) -> None:
    """A request without a partition is answered without an error, also to a broker that is not
    registered.
    """
    require_leader(probe)
    answer = probe.call(AlterPartitionRequest(broker_id=NO_NODE, broker_epoch=1))
    probe.expect_error(answer.error_code, ErrorCode.NONE)


@FAMILY.rule(
    "not-controller",
    source=_TEXT,
    section="Proposed Changes",
    apis=(ApiKey.ALTER_PARTITION, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM),
    changes=Changes.NOTHING,
    alone=False,
)
def not_controller(probe: Probe) -> None:
    """A controller that is not the active one refuses a change with NOT_CONTROLLER."""
    quorum = require_follower(probe)
    at = _Partition(quorum, Broker(), Broker(), Broker(), OTHER_TOPIC)
    answer = _alter(probe, at, [at.leader], broker_epoch=1)
    probe.expect_error(answer.error_code, ErrorCode.NOT_CONTROLLER)


@FAMILY.rule("other-epoch", source=_TEXT, section=_ERRORS)
def other_epoch(probe: Probe) -> None:
    """A request with another broker epoch than that of the registration is refused with
    STALE_BROKER_EPOCH.
    """
    at = _partition(probe)
    answer = _alter(probe, at, [at.leader], broker_epoch=at.leader.epoch - 1)
    probe.expect_error(answer.error_code, ErrorCode.STALE_BROKER_EPOCH)


@FAMILY.rule("shrinks", source=_TEXT, section="Proposed Changes")
def shrinks(probe: Probe) -> None:
    """The leader takes a follower out of the ISR; the answer has the new state, with the next
    partition epoch.
    """
    at = _partition(probe)
    result = _result(probe, _alter(probe, at, [at.leader]))
    probe.expect_error(result.error_code, ErrorCode.NONE)
    told = (result.leader_id, result.isr, result.partition_epoch)
    wanted = (at.leader.id, [at.leader.id], 1)
    probe.expect(told == wanted, f"(leader, ISR, partition epoch) is {told}, not {wanted}")


@FAMILY.rule("expands", source=_TEXT, section="Proposed Changes")
def expands(probe: Probe) -> None:
    """The leader takes a follower into the ISR again; the answer has the new state."""
    at = _partition(probe)
    first = _result(probe, _alter(probe, at, [at.leader]))
    fields = {"leader_epoch": first.leader_epoch, "partition_epoch": first.partition_epoch}
    result = _result(probe, _alter(probe, at, [at.leader, at.follower], **fields))
    probe.expect_error(result.error_code, ErrorCode.NONE)
    isr = sorted(result.isr)
    probe.expect(
        isr == sorted([at.leader.id, at.follower.id]), f"the ISR is {isr} after the change"
    )
    probe.expect(result.partition_epoch == 2, f"the partition epoch is {result.partition_epoch}")


@FAMILY.rule("keeps-leader-epoch", source="KIP-841", section="Proposed Changes", since="3.6")
def keeps_leader_epoch(probe: Probe) -> None:
    """A change of the ISR by the leader keeps leader and leader epoch: its fetchers need not look
    for it.
    """
    at = _partition(probe)
    result = _result(probe, _alter(probe, at, [at.leader]))
    told = (result.leader_id, result.leader_epoch)
    probe.expect(told == (at.leader.id, 0), f"leader and leader epoch are {told}")


@FAMILY.rule("record", source="KIP-631", section="Record Formats: IsrChange")
def record(probe: Probe) -> None:
    """A change of the ISR that is answered is in the log, once."""
    at = _partition(probe)
    end = brokers.log_end(probe, at.quorum)
    _alter(probe, at, [at.leader])
    isrs = [
        one.isr
        for _, one in brokers.records_from(probe, at.quorum, end)
        if isinstance(one, PartitionChangeRecord) and one.topic_id == at.topic
    ]
    probe.expect(isrs == [[at.leader.id]], f"the log changes the ISR to {isrs}")


@FAMILY.rule("old-partition-epoch", source=_TEXT, section=_ERRORS)
def old_partition_epoch(probe: Probe) -> None:
    """A change that knows an older state of the partition is refused with
    INVALID_UPDATE_VERSION.
    """
    at = _partition(probe)
    _result(probe, _alter(probe, at, [at.leader]))
    result = _result(probe, _alter(probe, at, [at.leader, at.follower], partition_epoch=0))
    probe.expect_error(result.error_code, ErrorCode.INVALID_UPDATE_VERSION)


@FAMILY.rule(
    "newer-partition-epoch",
    source="ReplicationControlManager",
    section="validateAlterPartitionData",
    since="3.5",
)
def newer_partition_epoch(probe: Probe) -> None:
    """A change that knows a newer state than the controller is refused with NOT_CONTROLLER: another
    controller made it.
    """
    _refused(probe, _alone, ErrorCode.NOT_CONTROLLER, partition_epoch=5)


@FAMILY.rule(
    "newer-leader-epoch",
    source="ReplicationControlManager",
    section="validateAlterPartitionData",
    since="3.5",
)
def newer_leader_epoch(probe: Probe) -> None:
    """A change of a newer leader epoch than the controller's is refused with NOT_CONTROLLER."""
    _refused(probe, _alone, ErrorCode.NOT_CONTROLLER, leader_epoch=5)


@FAMILY.rule("old-leader-epoch", source=_TEXT, section=_ERRORS)
def old_leader_epoch(probe: Probe) -> None:
    """A change of an older leader epoch is refused with FENCED_LEADER_EPOCH."""
    _refused(probe, _alone, ErrorCode.FENCED_LEADER_EPOCH, leader_epoch=-1)


@FAMILY.rule("not-leader", source="ReplicationControlManager", section="validateAlterPartitionData")
def not_leader(probe: Probe) -> None:
    """A change by a follower is refused with INVALID_REQUEST."""
    at = _partition(probe)
    result = _result(probe, _alter(probe, at, [at.leader], broker=at.follower))
    probe.expect_error(result.error_code, ErrorCode.INVALID_REQUEST)


@FAMILY.rule(
    "without-leader", source="ReplicationControlManager", section="validateAlterPartitionData"
)
def without_leader(probe: Probe) -> None:
    """An ISR without the leader is refused with INVALID_REQUEST."""
    _refused(probe, lambda at: [at.follower], ErrorCode.INVALID_REQUEST)


@FAMILY.rule("no-replica", source="ReplicationControlManager", section="validateAlterPartitionData")
def no_replica(probe: Probe) -> None:
    """An ISR with a broker that is no replica of the partition is refused with INVALID_REQUEST."""
    _refused(probe, lambda at: [at.leader, Broker(id=NO_NODE, epoch=1)], ErrorCode.INVALID_REQUEST)


@FAMILY.rule("fenced-replica", source="KIP-841", section="Proposed Changes")
def fenced_replica(probe: Probe) -> None:
    """An ISR with a fenced broker is refused with INELIGIBLE_REPLICA."""
    _refused(probe, lambda at: [*_both(at), at.fenced], ErrorCode.INELIGIBLE_REPLICA)


@FAMILY.rule("epoch-of-replica", source="KIP-903", section="AlterPartition", since="3.5")
def epoch_of_replica(probe: Probe) -> None:
    """An ISR with a replica whose broker epoch is not the registered one is refused with
    INELIGIBLE_REPLICA: the broker restarted meanwhile.
    """
    probe.need(ApiKey.ALTER_PARTITION, _WITH_EPOCHS)

    def isr(at: _Partition) -> list[Broker]:
        return [at.leader, Broker(id=at.follower.id, epoch=at.follower.epoch - 1)]

    _refused(probe, isr, ErrorCode.INELIGIBLE_REPLICA)


@FAMILY.rule("recovering-with-followers", source="KIP-704", section="AlterPartition", since="3.3")
def recovering_with_followers(probe: Probe) -> None:
    """A leader that is recovering and has followers in the ISR is refused with INVALID_REQUEST."""
    _refused(probe, _both, ErrorCode.INVALID_REQUEST, leader_recovery_state=_RECOVERING)


@FAMILY.rule("recovering-again", source="KIP-704", section="AlterPartition", since="3.3")
def recovering_again(probe: Probe) -> None:
    """A leader that has recovered does not go back to recovering: INVALID_REQUEST."""
    _refused(probe, _alone, ErrorCode.INVALID_REQUEST, leader_recovery_state=_RECOVERING)


@FAMILY.rule("unknown-topic", source="KIP-841", section="Public Interfaces")
def unknown_topic(probe: Probe) -> None:
    """A partition of an unknown topic id gets UNKNOWN_TOPIC_ID."""
    _refused(probe, _alone, ErrorCode.UNKNOWN_TOPIC_ID, topic=OTHER_TOPIC)


@FAMILY.rule("unknown-partition", source=_TEXT, section=_ERRORS)
def unknown_partition(probe: Probe) -> None:
    """A partition that the topic does not have is refused with UNKNOWN_TOPIC_OR_PARTITION."""
    _refused(probe, _alone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partition_index=77)


@FAMILY.rule("refusal-changes-nothing", source=_TEXT, section="Public Interfaces")
def refusal_changes_nothing(probe: Probe) -> None:
    """A change that is refused writes nothing, and the partition epoch stays."""
    at = _partition(probe)
    refused = _result(probe, _alter(probe, at, [*_both(at), at.fenced]))
    probe.expect(refused.error_code != ErrorCode.NONE, "a fenced replica is taken into the ISR")
    result = _result(probe, _alter(probe, at, [at.leader]))
    probe.expect_error(result.error_code, ErrorCode.NONE)
    probe.expect(result.partition_epoch == 1, f"the partition epoch is {result.partition_epoch}")
