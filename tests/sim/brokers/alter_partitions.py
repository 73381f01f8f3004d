"""Sends the changes of ISRs that the leaders of a simulated broker ask for: one AlterPartition
request at a time (``AlterPartitionManager``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.broker.replica.isr import Altered, Proposal
from kwire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kwire.protocol import ErrorCode
from tests.sim.brokers.messages import Key

if TYPE_CHECKING:
    from tests.sim.brokers.broker import Broker

_BACKOFF_S: Final = 0.05
_VERSION: Final = 3


class AlterPartitions:
    """The changes that leaders of ``broker`` have asked for and that are not answered."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._proposals: dict[Key, Proposal] = {}
        self._is_asking = False

    def propose(self, key: Key, proposal: Proposal) -> None:
        """Have the controller change an ISR."""
        self._proposals[key] = proposal
        self._ask()

    def _ask(self) -> None:
        if self._is_asking or not self._proposals:
            return
        self._is_asking = True
        sent = dict(self._proposals)
        topics = [
            TopicData(topic_id=topic_id, partitions=[_partition(index, proposal)])
            for (topic_id, index), proposal in sent.items()
        ]
        lifecycle = self._broker.lifecycle
        request = AlterPartitionRequest(
            broker_id=self._broker.id, broker_epoch=lifecycle.epoch, topics=topics
        )
        self._broker.ask_controller(request, _VERSION, lambda answer: self._answered(sent, answer))

    def _answered(self, sent: dict[Key, Proposal], answer: Any) -> None:
        if answer is None or answer.error_code:
            self._broker.after(_BACKOFF_S, self._again)
            return
        self._is_asking = False
        is_again = False
        for topic in answer.topics:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                proposal = sent[key]
                if self._proposals.get(key) is proposal:
                    del self._proposals[key]
                replica = self._broker.replicas.get(key)
                if replica is None or replica.leader is None:
                    continue
                if replica.leader.on_altered(proposal, _outcome(data), self._broker.now):
                    self._proposals.setdefault(key, proposal)
                    is_again = True
                elif (due := replica.leader.look_again()) is not None:
                    self._proposals[key] = due
                replica.advanced()
        if is_again:
            self._is_asking = True
            self._broker.after(_BACKOFF_S, self._again)
        else:
            self._ask()

    def _again(self) -> None:
        self._is_asking = False
        self._ask()


def _partition(index: int, proposal: Proposal) -> PartitionData:
    isr = [
        BrokerState(broker_id=one.broker_id, broker_epoch=one.broker_epoch)
        for one in proposal.requested
    ]
    return PartitionData(
        partition_index=index,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        new_isr_with_epochs=isr,
        leader_recovery_state=proposal.recovery_state,
    )


def _outcome(data: Any) -> Altered | ErrorCode:
    if data.error_code:
        return ErrorCode(data.error_code)
    return Altered(
        data.leader_epoch,
        data.partition_epoch,
        frozenset(data.isr),
        data.leader_recovery_state,
    )
