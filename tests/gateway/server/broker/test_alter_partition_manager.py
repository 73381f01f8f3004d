"""Changes of ISRs are asked for: one request at a time, again after failures, and no old ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.broker.lifecycle import BrokerLifecycle
from gateway.broker.replica.follower_state import Contact
from gateway.ports.services import THIS_NODE, ReplicaFetch
from gateway.server.broker.alter_partition_manager import AlterPartitionManager
from gateway.server.quorum.own_requests import OwnRequests
from kwire.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from kwire.messages.broker_registration_request import BrokerRegistrationRequest
from kwire.protocol import ErrorCode
from tests.gateway.server.harness import run
from tests.gateway.sources.data_partitions import TOPIC_ID, broker, partition, record, settle
from tests.waiting import until_async

#: A code of a newer controller.
_UNKNOWN = 31_000


class Controllers:
    """Keeps the requests until the test answers them."""

    is_active = True

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self._pending: list[Any] = []

    def submit(self, request: Any, version: int, who: Any, pending: Any) -> None:
        assert (version, who) == (3, THIS_NODE)
        self.asked.append(request)
        self._pending.append(pending)

    def refuse(self, error: int) -> None:
        self._pending.pop(0).complete(AlterPartitionResponse(error_code=error))

    def agree(self, error: int = ErrorCode.NONE) -> None:
        (topic,) = self.asked[-1].topics
        answers = [
            PartitionData(
                partition_index=one.partition_index,
                error_code=error,
                leader_id=1,
                leader_epoch=one.leader_epoch,
                isr=[replica.broker_id for replica in one.new_isr_with_epochs],
                partition_epoch=one.partition_epoch + 1,
            )
            for one in topic.partitions
        ]
        answered = TopicData(topic_id=topic.topic_id, partitions=answers)
        self._pending.pop(0).complete(AlterPartitionResponse(topics=[answered]))


class Reported:
    def __init__(self) -> None:
        self.events: list[str] = []

    def report(self, event: str, **fields: Any) -> None:
        self.events.append(event)


class Stage:
    """A leader without followers in sync, and the manager."""

    def __init__(self, directory: Path) -> None:
        self.controllers, self.reports = Controllers(), Reported()
        lifecycle = BrokerLifecycle(BrokerRegistrationRequest(broker_id=1))
        lifecycle.epoch = 100
        requests = OwnRequests(self.controllers, THIS_NODE, 10.0)
        self.manager = AlterPartitionManager(lifecycle, requests, self.reports)  # type: ignore[arg-type]
        self.log = partition(directory / "t-0", broker=broker(propose=self.manager.submit))
        self.log.lead(record(1, 1, 2, 3, isr=[1]))
        settle(self.log)

    def join(self, broker_id: int) -> None:
        """A follower has everything."""
        assert not self.log.note_fetch(ReplicaFetch(broker_id, 100, 0, 0, Contact(0.0)))


@asynccontextmanager
async def staged(directory: Path) -> AsyncIterator[Stage]:
    """A stage whose manager runs, and follower 2 has everything."""
    stage = Stage(directory)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.manager.run)
        stage.join(2)
        yield stage
        nursery.cancel_scope.cancel()


async def _settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


def test_next_follower_joins_when_the_one_before_has(tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path) as stage:
            stage.join(3)
            await _settled()
            (request,) = stage.controllers.asked
            assert (request.broker_id, request.broker_epoch) == (1, 100)
            (asked,) = request.topics[0].partitions
            assert request.topics[0].topic_id == TOPIC_ID
            assert [(o.broker_id, o.broker_epoch) for o in asked.new_isr_with_epochs] == [
                (1, 100), (2, 100),
            ]  # fmt: skip
            stage.controllers.agree()
            await _settled()
            stage.controllers.agree()
            await _settled()
            assert stage.log.leader is not None and stage.log.leader.state.isr == {1, 2, 3}
            assert (stage.manager.expands, stage.manager.failures) == (2, 0)
            assert stage.reports.events == ["isr changed"] * 2

    run(main)


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, _UNKNOWN])
def test_request_that_failed_as_a_whole_is_made_again(tmp_path: Path, error: int) -> None:
    async def main() -> None:
        async with staged(tmp_path) as stage:
            await _settled()
            assert stage.log.leader is not None
            proposal = stage.log.leader.state
            stage.controllers.refuse(error)
            await _settled()
            assert stage.log.leader.state is proposal, "the controller may have taken it"
            await until_async(lambda: len(stage.controllers.asked) == 2)
            stage.controllers.agree()
            await _settled()
            assert stage.log.leader is not None and stage.log.leader.state.isr == {1, 2}

    run(main)


def test_proposal_behind_the_image_is_not_sent_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path) as stage:
            await _settled()
            stage.log.lead(record(1, 1, 2, 3, isr=[1, 2], partition_epoch=9))
            stage.controllers.refuse(ErrorCode.NOT_CONTROLLER)
            await trio.sleep(0.2)
            await _settled()
            assert len(stage.controllers.asked) == 1

    run(main)


def test_outcome_that_is_not_known_is_asked_for_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path) as stage:
            await _settled()
            stage.controllers.agree(ErrorCode.INVALID_UPDATE_VERSION)
            await _settled()
            assert len(stage.controllers.asked) == 1
            assert stage.log.leader is not None and stage.log.leader.state.maximal == {1, 2}
            assert stage.reports.events == ["isr not changed"]

    run(main)


def test_error_of_a_partition_without_a_name_is_asked_about_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with staged(tmp_path) as stage:
            await _settled()
            stage.controllers.agree(_UNKNOWN)
            await _settled()
            assert len(stage.controllers.asked) == 2
            assert stage.log.leader is not None and stage.log.leader.state.maximal == {1, 2}
            assert stage.reports.events == ["isr not changed"]

    run(main)
