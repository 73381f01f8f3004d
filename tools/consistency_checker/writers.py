"""Appends to a metadata quorum, each writer with at most one append in flight, and keeps a journal
of the outcomes.

An append is a request for metadata whose record holds the append's number: a config of all brokers,
set to that number, or a topic with it in its name. No append is sent twice: one without an answer
stays unknown.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Self

from kwire import Message
from kwire.messages.config_record import ConfigRecord
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.topic_record import TopicRecord
from tools.admin import AdminError, errors
from tools.consistency_checker.history import Outcome
from tools.consistency_checker.journal import Journal
from tools.process import PATIENCE_S
from tools.wire_client import WireClient

CONFIG, TOPIC = "config", "topic"
#: A broker's config that takes any int64; as the default of all brokers it needs no broker.
_CONFIG_NAME, _BROKER, _SET = "log.cleaner.backoff.ms", 4, 0
_TOPIC_PREFIX = "loss-"
_VERSIONS = {CONFIG: 1, TOPIC: 7}
#: Numbers of one writer.
_NUMBERS = 1_000_000_000
#: Refusals that come before anything is done. NOT_CONTROLLER is not among them: Kafka's controller
#: says it, too, of what it has written and will not see committed as the leader.
BEFORE_ANYTHING = frozenset({3, 17, 36, 37, 38, 40, 42, 44})
NOT_CONTROLLER = 41
_PAUSE_S = 0.01


class Writers:
    """``with Writers({1: "host:port", ...}, journal) as writers:``: threads, one for each of
    ``kinds``, that write until the end.

    Each stays with the node that answers and otherwise tries the next. ``definite``: error codes of
    requests that did nothing. A request waits ``timeout_s`` at most; a writer sends ``per_second``
    at most. ``acknowledged`` and ``unknown`` count.
    """

    def __init__(
        self,
        addresses: Mapping[int, str],
        journal: Journal,
        *,
        kinds: Sequence[str] = (CONFIG, CONFIG, TOPIC),
        definite: Collection[int] = BEFORE_ANYTHING,
        timeout_s: float = 3.0,
        per_second: float = 1000,
        first: int = 0,
    ) -> None:
        self.acknowledged = 0
        self.unknown = 0
        self.failed = 0
        self._stop = threading.Event()
        self._count = threading.Condition()
        self._error: BaseException | None = None
        self._addresses, self._journal, self._definite = (
            dict(addresses),
            journal,
            frozenset(definite),
        )
        self._timeout_s, self._pause_s = timeout_s, 1 / per_second
        self._holds = [threading.Lock() for _ in kinds]
        self._threads = [
            threading.Thread(
                target=self._run,
                args=(first + number, kind, self._holds[number - 1]),
                name=f"writer {number}",
                daemon=True,
            )
            for number, kind in enumerate(kinds, 1)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more, wait for appends in flight, and raise the error that ended a writer, if
        there was one.
        """
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Within the block no append is sent or in flight."""
        with contextlib.ExitStack() as stack:
            for lock in self._holds:
                stack.enter_context(lock)
            yield

    def wait_for(self, more: int, timeout_s: float = PATIENCE_S) -> None:
        """Return when ``more`` appends than now are acknowledged. Raises AdminError."""
        with self._count:
            target = self.acknowledged + more
            self._count.wait_for(
                lambda: self.acknowledged >= target or self._error is not None, timeout_s
            )
            if self.acknowledged < target:
                raise AdminError(
                    f"{more - (target - self.acknowledged)} of {more} appends were acknowledged in"
                    f" {timeout_s:.0f} s (all in all {self.unknown} unknown, {self.failed}"
                    f" refused); {self._error!r}"
                )

    def _run(self, number: int, kind: str, hold: threading.Lock) -> None:
        writer = _Writer(self, number, kind)
        try:
            while not self._stop.wait(self._pause_s):
                with hold:
                    writer.append()
        except BaseException as error:
            self._error = error
        finally:
            writer.hang_up()

    def tell(self, outcome: Outcome) -> None:
        """Count one outcome."""
        with self._count:
            self.acknowledged += outcome is Outcome.ACKNOWLEDGED
            self.unknown += outcome is Outcome.UNKNOWN
            self.failed += outcome is Outcome.FAILED
            self._count.notify_all()


class _Writer:
    """The connection of one thread, and the numbers of its appends."""

    def __init__(self, all: Writers, number: int, kind: str) -> None:
        self._all, self._kind = all, kind
        self._id = number * _NUMBERS
        nodes = sorted(all._addresses)
        turn = number % len(nodes)
        self._nodes = nodes[turn:] + nodes[:turn]
        self._client: WireClient | None = None

    def append(self) -> None:
        """Send the next append to the node that answered last, or, where there is no connection, to
        the next node.
        """
        node = self._nodes[0]
        if self._client is None:
            try:
                self._client = WireClient(self._all._addresses[node], self._all._timeout_s)
            except OSError:
                self._next_node()
                return
        self._id += 1
        self._all._journal.sent(self._id, time.monotonic(), node)
        outcome, detail = self._ask(self._client)
        if detail != _SILENCE:
            self._all._journal.answered(self._id, time.monotonic(), outcome, detail)
        self._all.tell(outcome)
        if outcome is not Outcome.ACKNOWLEDGED:
            self._next_node()

    def _ask(self, client: WireClient) -> tuple[Outcome, str]:
        version = _VERSIONS[self._kind]
        try:
            answer = client.call(request(self._kind, self._id), version)
        except (OSError, EOFError):
            return Outcome.UNKNOWN, _SILENCE
        codes = {code for code, _ in errors(answer.to_json(version))}
        if not codes:
            return Outcome.ACKNOWLEDGED, ""
        definite = codes <= self._all._definite
        return (
            Outcome.FAILED if definite else Outcome.UNKNOWN,
            f"error {', '.join(map(str, sorted(codes)))}",
        )

    def _next_node(self) -> None:
        self.hang_up()
        self._nodes.append(self._nodes.pop(0))
        time.sleep(_PAUSE_S)

    def hang_up(self) -> None:
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.close()
            self._client = None


_SILENCE = "silence"


def request(kind: str, id: int) -> Message:
    """Return the request for the append with this number."""
    if kind == TOPIC:
        topic = CreatableTopic(name=f"{_TOPIC_PREFIX}{id}", num_partitions=1, replication_factor=1)
        return CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    config = AlterableConfig(name=_CONFIG_NAME, config_operation=_SET, value=str(id))
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=_BROKER, resource_name="", configs=[config])]
    )


def id_of(record: Message) -> int | None:
    """The number of the append that made this metadata record; None for one that no writer made."""
    if isinstance(record, TopicRecord) and record.name.startswith(_TOPIC_PREFIX):
        return int(record.name.removeprefix(_TOPIC_PREFIX))
    if (
        isinstance(record, ConfigRecord)
        and (record.resource_type, record.name) == (_BROKER, _CONFIG_NAME)
        and record.value
    ):
        return int(record.value)
    return None
