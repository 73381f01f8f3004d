"""A world with a group coordinator: requests pass through the handlers, responses over the wire,
without disk and tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gateway.groups import Answer, EventTime, GroupCoordinator, Settings
from gateway.groups.events import Event
from gateway.handlers.apis import join_group, offset_commit, offset_fetch, sync_group
from gateway.ports.pending_response import PendingResponse
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.handlers.world import World, over_the_wire

TOPIC = "__cluster_metadata"
SUBSCRIPTION = b"\0\0" + ConsumerProtocolSubscription(topics=[TOPIC]).encode(0)
WALL_MS = 1_700_000_000_000


class CoreGroups:
    """``gateway.ports.services.Groups`` straight over the coordinator: what is persisted is taken
    to be on disk at once.
    """

    def coordinator_of(self, group_id: str) -> int:
        return 7

    def complete_transaction(self, producer_id: int, partition: int, committed: bool) -> None:
        raise AssertionError("there are no transactions")

    def __init__(self) -> None:
        self.core = GroupCoordinator(Settings(initial_rebalance_delay_ms=0))
        self.asked = 0

    def submit(self, event: Event, pending: Any) -> None:
        self.asked += 1
        moment = EventTime(100.0, WALL_MS, self.asked.to_bytes(16, "big"))
        for effect in self.core.handle(event, pending, moment):
            if isinstance(effect, Answer):
                effect.asked.token.complete(effect.result)


@dataclass
class GroupWorld(World):
    groups: Any = field(default_factory=CoreGroups)

    def get(self, handler: Any, version: int, **fields: Any) -> Any:
        """The decoded answer, whether it came at once or as a completed PendingResponse; None while
        it is parked.
        """
        answer = self.ask(handler, version, **fields)
        return given(answer, version) if isinstance(answer, PendingResponse) else answer

    def join(
        self, version: int = 9, member_id: str = "", instance: str | None = None, **fields: Any
    ) -> Any:
        """JoinGroup of group g; a second one with the id that the first gave, where the version
        wants it.
        """
        if instance is not None:
            fields["group_instance_id"] = instance
        asked: dict[str, Any] = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
            **fields,
        }
        answer = self.get(join_group, version, member_id=member_id, **asked)
        if answer is not None and answer.error_code == 79:
            answer = self.get(join_group, version, member_id=answer.member_id, **asked)
        return answer

    def stable(self, instance: str | None = None) -> str:
        """Make group g of one member, in generation 1; gives its id."""
        member_id = str(self.join(instance=instance).member_id)
        assignments = [{"member_id": member_id, "assignment": b"everything"}]
        answer = self.get(
            sync_group,
            5,
            group_id="g",
            generation_id=1,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        assert (answer.error_code, answer.assignment) == (0, b"everything")
        return member_id

    def commit(self, offset: int, group_id: str = "g", **fields: Any) -> Any:
        topic = {
            "name": TOPIC,
            "partitions": [
                {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
            ],
        }
        return self.get(offset_commit, 9, group_id=group_id, topics=[topic], **fields)

    def fetch(self, group_id: str = "g") -> list[int]:
        answer = self.get(offset_fetch, 9, groups=[{"group_id": group_id, "topics": None}])
        return [p.committed_offset for t in answer.groups[0].topics for p in t.partitions]


def given(pending: PendingResponse, version: int) -> Any:
    """The response of ``pending``, over the wire; None if it is not complete."""
    got: list[Any] = []
    pending.attach(got.append)
    return over_the_wire(got[0], version) if got else None


def topics(version: int, first_with_ids: int, **more: Any) -> list[dict[str, Any]]:
    """The metadata topic in a request: by name, or by id."""
    return [
        {
            **({"topic_id": METADATA_TOPIC_ID} if version >= first_with_ids else {"name": TOPIC}),
            **more,
        }
    ]
