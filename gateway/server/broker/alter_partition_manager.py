"""Asks the active controller for the changes of ISRs that the leaders on this broker propose
(``DefaultAlterPartitionManager``, KIP-497).

One AlterPartition request is in flight at a time, with all proposals that have gathered. It decides
nothing: ``gateway.broker.replica.leader`` takes the answers. Version 3 has the broker epochs of the
replicas, so that a broker which has restarted since it fetched does not join (KIP-903).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.broker.replica.isr import Altered, Proposal
from kwire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kwire.protocol import error_name, known_error

if TYPE_CHECKING:
    from gateway.broker.lifecycle import BrokerLifecycle
    from gateway.server.logging.logs import Reports
    from gateway.server.quorum.own_requests import OwnRequests
    from gateway.sources.data_partition import DataPartition
    from kwire.messages.alter_partition_response import AlterPartitionResponse
    from kwire.messages.alter_partition_response import PartitionData as Answer
    from kwire.protocol import ErrorCode
    from kwire.uuid import Uuid

_VERSION: Final = 3
#: Pause before a request that failed as a whole is made again, s (Kafka: 50 ms).
_RETRY_S: Final = 0.05
_Key = tuple["Uuid", int]


class _Submitted(NamedTuple):
    partition: DataPartition
    proposal: Proposal


class AlterPartitionManager:
    """:meth:`run` is the task."""

    def __init__(self, lifecycle: BrokerLifecycle, requests: OwnRequests, reports: Reports) -> None:
        self._lifecycle = lifecycle
        self._requests = requests
        self._reports = reports
        self._unsent: dict[_Key, _Submitted] = {}
        self._wake = trio.Event()
        #: Changes that controllers have made, by kind (``IsrExpandsPerSec``, ``IsrShrinksPerSec``),
        #: and those that they have not (``FailedIsrUpdatesPerSec``).
        self.expands = self.shrinks = self.failures = 0

    def submit(self, partition: DataPartition, proposal: Proposal) -> None:
        """Have the controller asked for ``proposal``, which takes the place of an older one that
        was not sent yet.
        """
        self._unsent[partition.topic_id, partition.index] = _Submitted(partition, proposal)
        self._wake.set()

    async def run(self) -> None:
        """Send the proposals that are submitted, for ever."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._unsent:
                sent = {
                    key: one
                    for key, one in self._unsent.items()
                    # The image may have told of another state since.
                    if one.partition.awaits(one.proposal)
                }
                self._unsent = {}
                if sent and not await self._ask(sent):
                    # Proposals that came meanwhile are newer.
                    self._unsent = {**sent, **self._unsent}
                    await trio.sleep(_RETRY_S)

    async def _ask(self, sent: dict[_Key, _Submitted]) -> bool:
        """Send one request; whether the controller has answered it."""
        request = AlterPartitionRequest(
            broker_id=self._lifecycle.broker_id,
            broker_epoch=self._lifecycle.epoch,
            topics=_topics(sent),
        )
        response: AlterPartitionResponse | None = await self._requests.send(request, _VERSION)
        if response is None:
            return False
        if response.error_code:
            # STALE_BROKER_EPOCH: this broker registers again, or ends.
            self.failures += len(sent)
            self._reports.report(
                "isr not changed",
                error=error_name(response.error_code),
                partitions=len(sent),
            )
            return False
        for topic in response.topics:
            for answer in topic.partitions:
                one = sent.pop((topic.topic_id, answer.partition_index), None)
                if one is not None:
                    self._answered(one, answer)
        # A partition without an answer is asked for again.
        self._unsent = {**sent, **self._unsent}
        return True

    def _answered(self, one: _Submitted, answer: Answer) -> None:
        name, proposal = one.partition.directory.name, one.proposal
        outcome: Altered | ErrorCode
        if answer.error_code:
            outcome = known_error(answer.error_code)
            self.failures += 1
            self._reports.report(
                "isr not changed", partition=name, error=error_name(answer.error_code)
            )
        else:
            outcome = Altered(
                answer.leader_epoch,
                answer.partition_epoch,
                frozenset(answer.isr),
                answer.leader_recovery_state,
            )
            if proposal.is_expansion:
                self.expands += 1
            else:
                self.shrinks += 1
            self._reports.report(
                "isr changed",
                partition=name,
                isr=sorted(answer.isr),
                before=sorted(proposal.isr),
                partition_epoch=answer.partition_epoch,
            )
        one.partition.on_altered(proposal, outcome)


def _topics(sent: dict[_Key, _Submitted]) -> list[TopicData]:
    topics: dict[Uuid, TopicData] = {}
    for (topic_id, index), (_, proposal) in sent.items():
        topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
        topic.partitions.append(
            PartitionData(
                partition_index=index,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                leader_recovery_state=proposal.recovery_state,
                new_isr_with_epochs=[
                    BrokerState(broker_id=broker_id, broker_epoch=epoch)
                    for broker_id, epoch in proposal.requested
                ],
            )
        )
    return list(topics.values())
