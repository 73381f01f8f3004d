"""A controller with the log that it writes, and the image that every other node folds from that
log, in memory.

``Cluster.ask`` sends it a request, encoded and decoded both ways, and commits the records. After
every step the state of the controller must equal the image that the log gives.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import kwire
from gateway.controller.controller import Controller, Decision
from gateway.controller.kraft import KRaft, StaticKRaft
from gateway.controller.records import OPERATION_RECORDS_MAX, Operation
from gateway.controller.settings import ControllerSettings
from gateway.ports.streamed import Streamed
from kwire.cluster import Image, Loader
from kwire.message import Message
from kwire.records.metadata import decode_metadata_record
from tests.gateway.handlers.world import build

#: Forbidden operations: (operation, resource type, resource name); ``*`` is any name.
Forbidden = Iterable[tuple[str, str, str]]


def whole(answer: Message | Streamed) -> Message:
    """The answer with all its elements."""
    return answer.whole() if isinstance(answer, Streamed) else answer


class Cluster:
    """``nodes`` are those of the quorum, ``level`` the metadata.version that it begins with,
    ``log`` what is there already.
    """

    def __init__(
        self,
        *,
        level: int = 30,
        nodes: tuple[int, ...] = (1,),
        seed: int = 1,
        log: Iterable[bytes] = (),
        kraft_version: int = 0,
        kraft: KRaft | None = None,
        **settings: Any,
    ) -> None:
        self.kraft = kraft or StaticKRaft(kraft_version)
        self.settings = ControllerSettings(
            node_id=nodes[0], serving_nodes=nodes, metadata_version=level, **settings
        )
        self.now_ms = 0
        self.log: list[bytes] = []
        self.epoch = 0
        self._seed = seed
        self._follower = Loader()
        for value in log:
            self.append(value)
        self.began_with = self.elect()

    @property
    def image(self) -> Image:
        """The committed image."""
        return self._follower.image

    def elect(self) -> list[Operation]:
        """A new active controller, with what is committed; returns what it wrote first."""
        self.epoch += 1
        self.controller = Controller(
            self.settings,
            random=random.Random(self._seed * 1000 + self.epoch).randbytes,
            kraft=self.kraft,
        )
        operations = self.controller.activate(
            self.image, self.now_ms, transaction_open=self._follower.in_transaction
        )
        for operation in operations:
            self.commit(operation)
        self.check()
        return operations

    def decide(self, request: Message, version: int, forbidden: Forbidden = ()) -> Decision:
        """The outcome of ``request``, which goes over the wire first. Nothing is committed."""
        cls = type(request)
        return self.controller.handle(
            cls.decode(request.encode(version), version), version, allowing(forbidden), self.now_ms
        )

    def ask(self, request: Message, version: int | None = None, forbidden: Forbidden = ()) -> Any:
        """The answer to ``request``, over the wire, once what comes of it is committed."""
        version = type(request).VERSIONS[-1] if version is None else version
        decision = self.decide(request, version, forbidden)
        if decision.operation is not None:
            self.commit(decision.operation)
        self.check()
        answer = whole(decision.answer)
        return type(answer).decode(answer.encode(version), version)

    def commit(self, operation: Operation) -> None:
        """Append and fold the batches of ``operation``; its records must be in there, and be as
        they say.
        """
        for batch in operation.batches:
            assert 0 < len(batch) <= OPERATION_RECORDS_MAX
            for value in batch:
                self.append(value)
        marks = (
            {"BeginTransactionRecord", "EndTransactionRecord"}
            if len(operation.batches) > 1
            else set()
        )
        written = [decode_metadata_record(value) for batch in operation.batches for value in batch]
        told = [(record.message.NAME, record.version) for record in operation.records]
        assert [
            (message.NAME, version) for _, version, message in written if message.NAME not in marks
        ] == told

    def append(self, value: bytes) -> None:
        """One record at the end of the log, committed."""
        _, version, message = decode_metadata_record(value)
        assert version in type(message).VERSIONS
        self.log.append(value)
        self._follower.load(message, len(self.log) - 1, self.epoch)

    def check(self) -> None:
        """The controller's state is what the log says."""
        assert self.controller.image is not None
        assert same(self.controller.image, replayed(self.log))
        assert same(self.image, replayed(self.log))


def replayed(log: Iterable[bytes]) -> Image:
    """The image that a node has which reads the whole log."""
    loader = Loader()
    for offset, value in enumerate(log):
        loader.load(decode_metadata_record(value)[2], offset, 0)
    return loader.image


def same(one: Image, other: Image) -> bool:
    """Do they say the same of the cluster, from wherever they know it?"""
    return replace(one, next_offset=0, epoch=0) == replace(other, next_offset=0, epoch=0)


def allowing(forbidden: Forbidden = ()) -> Callable[[str, str, str], bool]:
    """An authorizer's answers."""
    rules = set(forbidden)
    return lambda operation, kind, name: (
        not {(operation, kind, name), (operation, kind, "*")} & rules
    )


def made(name: str, **fields: Any) -> Any:
    """A message by name from nested mappings: structs as dicts, arrays of structs as lists of
    dicts.
    """
    return build(kwire.message_type(name), fields)


def offered(ranges: Mapping[str, tuple[int, int]]) -> list[dict[str, Any]]:
    """The features of a registration, from the lowest level to the highest of each."""
    return [
        {"name": name, "min_supported_version": low, "max_supported_version": high}
        for name, (low, high) in ranges.items()
    ]


def create(*topics: dict[str, Any], **fields: Any) -> Any:
    """A CreateTopics request; fields that a topic does not have get the cluster's defaults."""
    defaults = {"num_partitions": -1, "replication_factor": -1}
    return made("CreateTopicsRequest", topics=[{**defaults, **topic} for topic in topics], **fields)
