"""Runs the transaction coordinator: loads its log, appends its records, has its markers written,
keeps its time.

Every decision is ``gateway.broker.transactions``'. A question about a transaction that another
broker coordinates goes to that one. Follows Kafka's ``TransactionStateManager``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import trio

from gateway.base.error_text import escape
from gateway.base.slices import Slices, run
from gateway.base.wall_clock import wall_ms
from gateway.broker.transactions import queries
from gateway.broker.transactions.coordinator import TransactionCoordinator
from gateway.broker.transactions.effects import (
    Allocate,
    Answer,
    Append,
    Asked,
    Effect,
    Moment,
    RetryLater,
    Stuck,
    WriteMarkers,
)
from gateway.broker.transactions.events import AddPartitions, Event, VerifyPartitions
from gateway.broker.transactions.transaction import BUMPS_EPOCH, Producer, TopicPartition
from gateway.broker.transactions.transaction_log import TransactionCounts, read_transactions
from gateway.server.broker.coordinator_partition import PartitionUnavailable
from gateway.server.broker.partition_verifier import Question
from gateway.server.broker.transaction_marker_channel_manager import (
    RemoteMarkers,
    TransactionMarkerChannelManager,
)
from kwire.errors import DecodeError
from kwire.protocol import ErrorCode
from kwire.protocol.features import TRANSACTION_VERSION

if TYPE_CHECKING:
    from gateway.broker.internal_topic import InternalTopicSettings
    from gateway.broker.transactions.queries import Filter
    from gateway.broker.transactions.transaction import Transaction
    from gateway.broker.transactions.transaction_log import LedPartition
    from gateway.ports.replicas import ProducerIds, Replicas
    from gateway.server.broker.broker_requests import BrokerRequests
    from gateway.server.broker.coordinator_partition import CoordinatorPartition
    from gateway.server.broker.internal_topic import InternalTopic
    from gateway.server.logging.logs import Reports
    from gateway.sources.metadata_loader import MetadataLoader

#: Between attempts to write a marker, or to read the log, s.
_RETRY_S: Final = 0.1

_T = TypeVar("_T")


class TransactionSettings(NamedTuple):
    """The keys of the transaction coordinator."""

    topic: InternalTopicSettings  #: how ``__transaction_state`` is created
    max_timeout_ms: int  #: ``transaction.max.timeout.ms``
    expiration_ms: int  #: ``transactional.id.expiration.ms``
    abort_interval_s: float  #: between looks for transactions whose time is over
    expiration_interval_s: float  #: between looks for ids that have expired


class OtherBrokers(NamedTuple):
    """The id of this broker, and what it asks others: whether transactions have partitions, and to
    write markers.
    """

    node_id: int
    verifications: BrokerRequests[Question]
    markers: BrokerRequests[RemoteMarkers]


class TransactionDriver:
    """``gateway.ports.transactions.Transactions``; :meth:`run` is the task."""

    def __init__(
        self,
        others: OtherBrokers,
        topic: InternalTopic,
        offsets_topic: InternalTopic,
        replicas: Replicas,
        producer_ids: ProducerIds,
        loader: MetadataLoader,
        settings: TransactionSettings,
        reports: Reports,
        wall_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._others = others
        self._topic = topic
        self._offsets_topic = offsets_topic
        self._producer_ids = producer_ids
        self._loader = loader
        self._settings = settings
        self._reports = reports
        self._wall_ms = wall_ms
        self._coordinator = TransactionCoordinator(
            max_timeout_ms=settings.max_timeout_ms, expiration_ms=settings.expiration_ms
        )
        self.markers = TransactionMarkerChannelManager(
            others.node_id, replicas, loader, others.markers, self._marked
        )
        self._led: dict[int, CoordinatorPartition] = {}
        self._loading: deque[tuple[LedPartition, CoordinatorPartition]] = deque()
        self._retries: list[int] = []
        self._to_load, self._to_retry = trio.Event(), trio.Event()
        topic.follow(self._elected, self._resigned)

    # --- what handlers ask
    # ---------------------------------------------------------------------------------------------

    def find_coordinator(self, transactional_id: str) -> int | ErrorCode:
        """As in ``Transactions``."""
        return self._topic.coordinator_of(transactional_id)

    def partition_of_group(self, group_id: str) -> int | None:
        """As in ``Transactions``."""
        return self._offsets_topic.partition_for(group_id)

    def submit(self, event: Event, on_done: Callable[[Any], None]) -> None:
        """As in ``Transactions``."""
        self._handle(Asked(event, on_done))

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
        on_done: Callable[[Mapping[tuple[str, int], ErrorCode]], None],
    ) -> None:
        """As in ``Transactions``."""
        producer = Producer(producer_id, producer_epoch)
        wanted = frozenset(TopicPartition(*one) for one in partitions)
        coordinator = self._topic.coordinator_of(transactional_id)
        if isinstance(coordinator, ErrorCode):
            on_done(dict.fromkeys(wanted, coordinator))
        elif coordinator != self._others.node_id:
            question = Question(transactional_id, producer, wanted, add, on_done)
            self._others.verifications.send(coordinator, question)
        elif add:
            event = AddPartitions(transactional_id, producer, wanted, BUMPS_EPOCH)
            self.submit(event, lambda error: on_done(dict.fromkeys(wanted, error)))
        else:
            self.submit(VerifyPartitions(transactional_id, producer, wanted), on_done)

    def describe(self, transactional_id: str) -> Transaction | ErrorCode:
        """As in ``Transactions``."""
        self._count_partitions()
        return queries.describe(self._coordinator.log, transactional_id)

    def matching(self, wanted: Filter, now_ms: int) -> Slices[list[Transaction] | ErrorCode]:
        """As in ``Transactions``."""
        return queries.matching(self._coordinator.log, wanted, now_ms)

    @property
    def counts(self) -> TransactionCounts | None:
        """The transactions as of the last look for those whose time is over; None before."""
        return self._coordinator.counts

    # --- events and effects
    # ---------------------------------------------------------------------------------------------

    def _moment(self) -> Moment:
        level = self._loader.image.features.get(TRANSACTION_VERSION, 0)
        return Moment(self._wall_ms(), level)

    def _count_partitions(self) -> None:
        self._coordinator.log.partition_count = len(self._topic.partitions)

    def _handle(self, asked: Asked, *producer_id: int) -> None:
        self._count_partitions()
        try:
            effects = self._coordinator.handle(*asked, self._moment(), *producer_id)
        except Exception as error:  # a bug costs one request, not the others
            self._reports.bug("transaction request failed", error, operation=_name(asked.event))
            self._deliver(Answer(asked, asked.event.failed(ErrorCode.UNKNOWN_SERVER_ERROR)))
        else:
            self._apply(effects)

    def _apply(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Answer():
                    self._deliver(effect)
                case Allocate(asked):
                    self._producer_ids.allocate(partial(self._allocated, asked))
                case Append():
                    self._append(effect)
                case WriteMarkers():
                    self.markers.write(effect)
                case RetryLater(number):
                    self._retries.append(number)
                    self._to_retry.set()
                case Stuck():
                    self._reports.report(
                        "transaction marker refused",
                        transactional_id=escape(effect.transactional_id),
                        partition=f"{escape(effect.where.topic)}-{effect.where.partition}",
                        error=effect.error,
                    )

    def _deliver(self, answer: Answer) -> None:
        if answer.asked.token is None:
            return  # no client has asked
        try:
            answer.asked.token(answer.result)
        except Exception as error:  # one response that fails must not fail other transactions
            operation = _name(answer.asked.event)
            self._reports.bug("transaction request failed", error, operation=operation)

    def _allocated(self, asked: Asked, found: int | ErrorCode) -> None:
        if isinstance(found, ErrorCode):
            self._deliver(Answer(asked, asked.event.failed(found)))
        else:
            self._handle(asked, found)

    def _append(self, effect: Append) -> None:
        led = self._led.get(effect.partition)
        done = partial(self._appended, effect.number)
        if led is None or led.epoch != effect.epoch:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            led.append([(effect.key, effect.value, ())], self._wall_ms(), done)

    def _appended(self, number: int, outcome: int | ErrorCode) -> None:
        error = outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE
        self._apply(self._coordinator.on_appended(number, error, self._moment()))

    def _marked(self, number: int, where: TopicPartition, error: ErrorCode) -> None:
        self._apply(self._coordinator.on_marked(number, where, error, self._moment()))

    # --- the log
    # ---------------------------------------------------------------------------------------------

    def _elected(self, partition: CoordinatorPartition) -> None:
        self._led[partition.index] = partition
        led = self._coordinator.log.begin(partition.index, partition.epoch)
        self._loading.append((led, partition))
        self._to_load.set()

    def _resigned(self, partition: CoordinatorPartition) -> None:
        self._led.pop(partition.index, None)
        self._apply(self._coordinator.resign(partition.index))

    async def _load(self, led: LedPartition, partition: CoordinatorPartition) -> None:
        """Load a partition; again later, behind the others, if it cannot be read now."""
        try:
            replay = await partition.load()
            pairs = [(key, one.value) for key, one in replay.records.items()]
            found = await trio.to_thread.run_sync(lambda: run(read_transactions(pairs)))
        except PartitionUnavailable:
            if self._coordinator.log.leads(led):
                self._loading.append((led, partition))
                await trio.sleep(_RETRY_S)
        except DecodeError as error:
            # No client is told that it has no transaction: it would begin another one.
            self._reports.report(
                "transactions not loaded", partition=str(partition), error=str(error)
            )
        else:
            load = self._coordinator.load(led, found, self._moment())
            await self._apply_in_turns(await _in_turns(load))

    # --- the tasks
    # ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run all tasks until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_loading)
            nursery.start_soon(self.markers.run)
            nursery.start_soon(self._keep_retrying)
            nursery.start_soon(self._abort_regularly)
            nursery.start_soon(self._expire_regularly)

    async def _keep_loading(self) -> None:
        while True:
            await self._to_load.wait()
            self._to_load = trio.Event()
            while self._loading:
                await self._load(*self._loading.popleft())

    async def _keep_retrying(self) -> None:
        while True:
            await self._to_retry.wait()
            self._to_retry = trio.Event()
            await trio.sleep(_RETRY_S)
            numbers, self._retries = self._retries, []
            for number in numbers:
                self._apply(self._coordinator.on_retry(number, self._moment()))
                await trio.lowlevel.checkpoint()

    async def _abort_regularly(self) -> None:
        while True:
            await trio.sleep(self._settings.abort_interval_s)
            for event in await _in_turns(self._coordinator.timed_out(self._wall_ms())):
                self._handle(Asked(event, None))
                await trio.lowlevel.checkpoint()

    async def _expire_regularly(self) -> None:
        while True:
            await trio.sleep(self._settings.expiration_interval_s)
            await self._apply_in_turns(await _in_turns(self._coordinator.expire(self._moment())))

    async def _apply_in_turns(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._apply((effect,))
            await trio.lowlevel.checkpoint()


async def _in_turns(work: Slices[_T]) -> _T:
    """Carry out the slices of ``work``, and let other tasks run between them."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: _T = end.value
            return result
        await trio.lowlevel.checkpoint()


def _name(event: Event) -> str:
    return type(event).__name__
