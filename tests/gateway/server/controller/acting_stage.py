"""An acting controller without a quorum: fakes of core, driver and image, and requests of a
client.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import trio
import trio.testing

from gateway.base.address import Address
from gateway.broker.quotas.client_quotas import ClientQuotas
from gateway.broker.quotas.samples import QuotaSettings
from gateway.controller.controller import Controller
from gateway.controller.settings import ControllerSettings
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import Requester
from gateway.quorum.events import ImageLacks, Propose
from gateway.security.authorizer import AllowAll
from gateway.server.controller.acting_controller import ActingController
from gateway.server.controller.changes import Changes
from gateway.server.logging.logs import Reports
from kwire.cluster import Image
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.records import decode_metadata_record
from tests.gateway.server.scripted_raft import HOW

VERSION = 7
ASKER = Requester("User:alice", "10.0.0.7", "test")


class FakeRaft:
    """``leads_until``: until then no other node can have been elected; infinite for a quorum of
    one.
    """

    node_id, leader_id, epoch, kraft_version = 1, -1, 0, 0
    leads_until = math.inf
    refusal: str | None = None  #: why it refuses a higher kraft.version

    def upgrade_refusal(self, version: int) -> str | None:
        return self.refusal

    class voters:
        nodes = (1,)

    class log:
        end_offset = 0


class FakeDriver:
    """Notes proposals and resignations; :meth:`Stage.accept` appends the proposals."""

    def __init__(self) -> None:
        self.raft = FakeRaft()
        self.proposed: list[Propose] = []
        self.resigned: list[tuple[int, str]] = []
        self.lacks: list[str | None] = []  #: what the core was told that the image lacks
        self._number = 0

    def number(self) -> int:
        self._number += 1
        return self._number

    def submit(self, event: Any) -> None:
        assert isinstance(event, Propose), event
        self.proposed.append(event)

    def submit_first(self, event: Any) -> None:
        if isinstance(event, ImageLacks):
            self.lacks.append(event.what)
        else:
            self.resigned.append((event.epoch, event.reason))


class FakeLoader:
    def __init__(self) -> None:
        self.image, self.loaded, self.read_offset, self.in_transaction = Image(), True, 0, False
        #: Next offset of the image, which has every record unless a test says otherwise.
        self.next_offset: float = math.inf
        self.problem: str | None = None
        self.lacks: str | None = None


class Waiting(PendingResponse):
    """A pending response of a connection. ``answer``: the response, once it is complete."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        super().__init__()
        self.answer: Any = None
        self.attach(self._take)

    def _take(self, answer: Any) -> None:
        self.answer = answer


class Stage:
    """An acting controller and the fakes that it uses. ``audit``: the writer of the audit log."""

    def __init__(self, audit: Any = None) -> None:
        self.driver, self.loader, self.reports = FakeDriver(), FakeLoader(), Reports()
        self.address: Address | None = None
        self.made: list[Controller] = []
        self.now = 1000.0  # of the quotas, s
        self.quotas = ClientQuotas(QuotaSettings(), QuotaSettings(), lambda: self.now)
        self.epochs: dict[int, int] = {}  # epochs of committed records, by offset
        self.acting = ActingController(
            self._make,
            cast(Any, self.driver),
            cast(Any, self.loader),
            AllowAll(),
            lambda: self.address,
            HOW,
            self.reports,
            Changes(1, self.reports, audit, lambda offset: self.epochs.get(offset, -1)),
            self.quotas,
        )
        self._end = 1

    def _make(self, serving: Sequence[int]) -> Controller:
        settings = ControllerSettings(1, tuple(serving), max_idle_interval_ms=0)
        made = Controller(settings, random=random.Random(1).randbytes, kraft=self.driver.raft)
        self.made.append(made)
        return made

    def lead(self, epoch: int = 1) -> None:
        """Elect this node with a complete image, and commit the activation records."""
        self.driver.raft.leader_id = 1
        self.acting.on_elected(epoch, self._end - 1)
        self.loader.read_offset = self._end
        self.acting.image_advanced()
        self.commit()

    def accept(self) -> None:
        """Append all proposals."""
        for event in self.driver.proposed:
            self._end += sum(len(batch) for batch in event.batches) + (
                2 if event.kraft_version else 0
            )
            self.acting.accepted(event.number, self._end)
        self.driver.proposed.clear()

    def commit(self) -> None:
        self.accept()
        self.acting.committed(self._end)

    def ask(self, *names: str, **options: Any) -> Waiting:
        """Submit CreateTopics."""
        pending = Waiting()
        self.acting.submit(create(*names, **options), VERSION, ASKER, pending)
        return pending

    def proposed_topics(self) -> list[str]:
        values = [
            value for event in self.driver.proposed for batch in event.batches for value in batch
        ]
        records: list[Any] = [decode_metadata_record(value)[2] for value in values]
        return [record.name for record in records if record.NAME == "TopicRecord"]


def create(*names: str, **options: Any) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000, **options)


def error_of(pending: Waiting) -> int:
    """The error code of the response's first topic."""
    return int(pending.answer.topics[0].error_code)


def message_of(pending: Waiting) -> str:
    return str(pending.answer.topics[0].error_message)


@contextlib.asynccontextmanager
async def acting(stage: Stage) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.acting.run)
        yield
        nursery.cancel_scope.cancel()
