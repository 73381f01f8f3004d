"""The active controller counts the partitions that clients create and delete (KIP-599)."""

from __future__ import annotations

from typing import Any

import trio

from kwire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest
from kwire.protocol import ErrorCode
from tests.gateway.server.controller.acting_stage import ASKER, Stage, Waiting, acting
from tests.waiting import until_async

THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class ThrottledStage(Stage):
    """``ASKER`` may change a partition a second, in eleven windows of one second."""

    def __init__(self) -> None:
        super().__init__()
        self.quotas.mutations.limits.set((("user", "alice"),), 1)

    async def answer(self, request: Any, version: int) -> Any:
        """The response, once the change is committed."""
        pending = Waiting()
        self.acting.submit(request, version, ASKER, pending)

        def is_answered() -> bool:
            self.commit()
            return pending.answer is not None

        await until_async(is_answered)
        return pending.answer

    async def create(self, *topics: tuple[str, int], version: int = 7, **more: Any) -> Any:
        asked = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in topics
        ]
        return await self.answer(
            CreateTopicsRequest(topics=asked, timeout_ms=1000, **more), version
        )


def run(scenario: Any) -> None:
    async def main() -> None:
        stage = ThrottledStage()
        async with acting(stage):
            stage.lead()
            await scenario(stage)

    trio.run(main)


def test_topics_of_a_request_are_created_while_the_quota_lasts() -> None:
    async def scenario(stage: ThrottledStage) -> None:
        made = await stage.create(("a", 10), ("b", 5), ("c", 1))
        assert [topic.error_code for topic in made.topics] == [0, 0, THROTTLED]
        assert made.topics[2].error_message == "The throttling quota has been exceeded."
        # Four tokens too many, at one a second.
        assert made.throttle_time_ms == 4000
        stage.now += 4
        again = await stage.create(("c", 1))
        assert (again.topics[0].error_code, again.throttle_time_ms) == (0, 0)

    run(scenario)


def test_version_without_the_error_is_carried_out_and_throttled() -> None:
    async def scenario(stage: ThrottledStage) -> None:
        made = await stage.create(("a", 20), ("b", 1), version=5)
        assert [topic.error_code for topic in made.topics] == [0, 0]
        assert made.throttle_time_ms == 10_000

    run(scenario)


def test_deleted_and_added_partitions_count() -> None:
    async def scenario(stage: ThrottledStage) -> None:
        await stage.create(("a", 10))
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="a", count=15, assignments=None)], timeout_ms=1000
        )
        added = await stage.answer(more, 3)
        assert (added.results[0].error_code, added.throttle_time_ms) == (0, 0)
        deleted = await stage.answer(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5)
        assert (deleted.responses[0].error_code, deleted.throttle_time_ms) == (THROTTLED, 4000)
        stage.now += 5
        deleted = await stage.answer(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5)
        assert deleted.responses[0].error_code == 0
        refused = await stage.create(("b", 1))
        assert (refused.topics[0].error_code, refused.throttle_time_ms) == (THROTTLED, 14_000)

    run(scenario)


def test_refused_topic_counts_nothing_and_a_validated_one_does() -> None:
    async def scenario(stage: ThrottledStage) -> None:
        for _ in range(5):
            refused = await stage.create(("not a name", 100))
            assert refused.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        # As in ReplicationControlManager, whose quota comes before the look at validateOnly.
        await stage.create(("a", 12), validate_only=True)
        assert (await stage.create(("a", 1))).topics[0].error_code == THROTTLED

    run(scenario)


def test_client_without_a_quota_changes_what_it_likes() -> None:
    async def scenario(stage: ThrottledStage) -> None:
        stage.quotas.mutations.limits.set((("user", "alice"),), None)
        for number in range(3):
            made = await stage.create((f"t{number}", 500))
            assert (made.topics[0].error_code, made.throttle_time_ms) == (0, 0)
        assert len(stage.quotas.mutations) == 0

    run(scenario)
