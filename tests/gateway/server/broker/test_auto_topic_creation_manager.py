"""Creation of topics that clients ask for: one request for a name at a time, each client's own."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import Requester
from gateway.server.broker.auto_topic_creation_manager import AutoTopicCreationManager, NewTopics
from kwire.messages.create_topics_response import CreateTopicsResponse
from tests.gateway.server.harness import run

ALICE, BOB = Requester("User:alice", "127.0.0.1", "a"), Requester("User:bob", "127.0.0.1", "b")


class Controllers:
    """Keeps the requests until the test answers them."""

    is_active = True

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], str]] = []
        self.pending: list[PendingResponse] = []

    def submit(self, request: Any, version: int, who: Requester, pending: PendingResponse) -> None:
        self.asked.append(([topic.name for topic in request.topics], who.principal))
        self.sizes = {(t.num_partitions, t.replication_factor) for t in request.topics}
        self.pending.append(pending)

    def answer(self) -> None:
        self.pending.pop(0).complete(CreateTopicsResponse())


def test_names_of_one_client_go_together_and_a_name_under_way_is_not_sent_again() -> None:
    async def main() -> None:
        controllers, internal = Controllers(), list[int]()
        manager = AutoTopicCreationManager(
            controllers, NewTopics(3, 2), {"__consumer_offsets": lambda: internal.append(1)}
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(manager.run)
            for name, who in (("a", ALICE), ("b", BOB), ("c", ALICE), ("a", BOB)):
                manager.create(name, who)
            manager.create("__consumer_offsets", ALICE)
            await trio.testing.wait_all_tasks_blocked()
            assert controllers.asked == [(["a", "c"], "User:alice")]
            assert (controllers.sizes, internal) == ({(3, 2)}, [1])
            manager.create("c", BOB)
            controllers.answer()
            await trio.testing.wait_all_tasks_blocked()
            assert controllers.asked[1:] == [(["b"], "User:bob")]
            controllers.answer()
            await trio.testing.wait_all_tasks_blocked()
            manager.create("a", BOB)  # it was not created, or is deleted again
            await trio.testing.wait_all_tasks_blocked()
            assert controllers.asked[2:] == [(["a"], "User:bob")]
            nursery.cancel_scope.cancel()

    run(main)
