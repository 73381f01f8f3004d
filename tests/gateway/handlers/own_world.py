"""A node of a quorum with a real controller: decisions are committed at once, unless a test holds
them back.
"""

from __future__ import annotations

import random
from typing import Any

from gateway.controller.controller import Controller
from gateway.controller.settings import ControllerSettings
from gateway.handlers.table import controller_handlers, handlers
from gateway.ports.pending_response import PendingResponse, WorkType
from gateway.ports.services import Requester
from gateway.ports.work import completed
from gateway.server.controller.proposals import QueuedRequest
from gateway.server.controller.voter_requests import change_voters
from kwire.cluster import Delta, Image, apply
from kwire.message import Message
from kwire.messages.register_controller_record import ControllerEndpoint, RegisterControllerRecord
from tests.gateway.handlers.admin_handlers import create_topics
from tests.gateway.handlers.world import NODE, MemoryQuorum, World, api_key, build, over_the_wire

OTHER = 8


class MemoryControllers:
    """``gateway.ports.services.Controllers``: the active controller is here. ``holds`` keeps
    requests until
    :meth:`release`.
    """

    def __init__(self, world: OwnWorld, quorum: MemoryQuorum, serving: tuple[int, ...]) -> None:
        self.is_active = True
        self.holds = False
        self.askers: list[Requester] = []
        self._world = world
        self._quorum = quorum
        self._held: list[tuple[Message, int, Requester, PendingResponse]] = []
        self._controller = Controller(
            ControllerSettings(NODE, serving), random=random.Random(1).randbytes
        )
        self._commit(*self._controller.activate(quorum.image, 0))

    def submit(
        self, request: Message, version: int, requester: Requester, pending: PendingResponse
    ) -> None:
        self._held.append((request, version, requester, pending))
        if not self.holds:
            self.release()

    def release(self) -> None:
        held, self._held = self._held, []
        for request, version, requester, pending in held:
            self.askers.append(requester)
            queued = QueuedRequest(request, version, requester, pending)
            if change_voters(queued, self._world.raft, self._world.authorizer):
                continue
            outcome = self._controller.handle(
                request, version, self._allows(requester), 0, requester.principal
            )
            if outcome.operation is not None:
                self._commit(outcome.operation)
            pending.complete(outcome.answer)

    def _allows(self, requester: Requester) -> Any:
        rules = self._world.authorizer
        return lambda *question: rules.allows(requester.principal, requester.host, *question)

    def _commit(self, *operations: Any) -> None:
        for operation in operations:
            self._world.commit(*(record.message for record in operation.records))


def commit(image: Image, *records: Message) -> Delta:
    """Apply records to an image as the server does."""
    delta = Delta(image)
    for record in records:
        apply(delta.image, record)
    delta.commit()
    return delta


class OwnWorld(World):
    """Two nodes serve: this one, and another, which registered a listener for clients.
    ``ask`` returns responses, never pending ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.quorum = MemoryQuorum()
        self.topic_index.on_update(None, self.quorum.image)
        self.controller = MemoryControllers(self, self.quorum, (NODE, OTHER))
        endpoints = [
            ControllerEndpoint(name=name, host="other.example", port=port)
            for name, port in (("CONTROLLER", 9093), ("PLAINTEXT", 9095))
        ]
        self.quorum.image.controllers[OTHER] = RegisterControllerRecord(
            controller_id=OTHER, end_points=endpoints
        )

    def ask(self, handler: Any, version: int, *, listener: str = "PLAINTEXT", **fields: Any) -> Any:
        known = controller_handlers() if listener == "CONTROLLER" else handlers()
        request_class = known[api_key(handler)].request_type(version)
        request = request_class.decode(build(request_class, fields).encode(version), version)
        answer = handler.handle(request, self.context(version, listener))
        if isinstance(answer, WorkType):
            answer = completed(answer)
        if not isinstance(answer, PendingResponse):
            return answer if answer is None else over_the_wire(answer, version)
        said: list[Message] = []
        answer.attach(said.append)
        return over_the_wire(said[0], version) if said else answer

    def commit(self, *records: Message) -> None:
        """Apply records to the image, and tell who subscribes to it."""
        self.topic_index.on_update(commit(self.quorum_image, *records), self.quorum_image)

    def create(self, name: str, *replicas: list[int]) -> None:
        """A topic with one partition on each of these lists of nodes."""
        assignments = [
            {"partition_index": index, "broker_ids": one} for index, one in enumerate(replicas)
        ]
        topic = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": assignments,
        }
        (result,) = self.ask(create_topics, 7, topics=[topic], timeout_ms=1000).topics
        assert result.error_code == 0, result.error_message
