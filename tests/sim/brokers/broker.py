"""Simulates a broker: it registers and sends heartbeats, follows the metadata log, leads and
follows partitions, and loses what a process or a machine loses.

The decisions are those of the server's ``BrokerLifecycle``, ``Leader`` and ``Fetcher``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.broker.lifecycle import NO_EPOCH, BrokerLifecycle, BrokerState
from gateway.controller.features import SUPPORTED
from kwire.cluster import Loader
from kwire.message import Message
from kwire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.messages.broker_registration_request import BrokerRegistrationRequest, Feature
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.sim.brokers.alter_partitions import AlterPartitions
from tests.sim.brokers.controllers import (
    CLUSTER_ID,
    FetchMetadata,
    NotController,
    Records,
    ToController,
)
from tests.sim.brokers.fetching import FollowerFetches
from tests.sim.brokers.following import Fetchers
from tests.sim.brokers.messages import (
    Consume,
    Consumed,
    DeleteRecords,
    FindOffsets,
    FoundOffsets,
    Key,
    Produce,
    Produced,
)
from tests.sim.brokers.partition_log import PartitionLog
from tests.sim.brokers.processes import OnAnswer, SimulatedProcess
from tests.sim.brokers.replica import Replica

if TYPE_CHECKING:
    from kwire.cluster import Image
    from tests.sim.brokers.world import BrokerWorld

HEARTBEAT_S: Final = 0.5
_CHECKPOINT_S: Final = 2.0
_TIMEOUT_S: Final = 1.0
_DAY_MS: Final = 86_400_000
_OF_BROKERS: Final = (RegisterBrokerRecord, BrokerRegistrationChangeRecord)


class Broker(SimulatedProcess):
    """A broker with its disk. ``logs`` is the disk, with ``clean_epoch``: the broker epoch that a
    clean shutdown has left there, -1 without one.
    """

    def __init__(self, world: BrokerWorld, id: int) -> None:
        self.logs: dict[Key, PartitionLog] = {}
        self.clean_epoch = NO_EPOCH
        self._controller_at = 0
        super().__init__(world, id)

    def __str__(self) -> str:
        return f"broker {self.id}"

    # --- its life

    def on_start(self) -> None:
        world = self.world
        self.loader = Loader()
        self._read_to = 0  # in a metadata transaction this is beyond the image
        self.is_current = False  # whether its image has its own registration
        #: A request got no answer in time: it may reach a controller behind later ones.
        self.has_late_requests = False
        self.replicas: dict[Key, Replica] = {}
        self.fetches = FollowerFetches(self)
        self.fetchers = Fetchers(self)
        self.alter_partitions = AlterPartitions(self)
        self.incarnation_id = Uuid((self.id << 64 | self.incarnation).to_bytes(16, "big"))
        previous, self.clean_epoch = self.clean_epoch, NO_EPOCH
        self.lifecycle = BrokerLifecycle(_registration(self, previous))
        for log in self.logs.values():
            log.load_producers()
        self._fetch_metadata()
        self._beat()
        self.after(world.shape.lag_s / 2, self._check_lag)
        self.after(_CHECKPOINT_S, self._checkpoint)

    @property
    def image(self) -> Image:
        return self.loader.image

    @property
    def is_running(self) -> bool:
        """Whether it is up and unfenced, as far as it knows."""
        return self.up and self.lifecycle.state is BrokerState.RUNNING

    def lose_power(self) -> None:
        """The machine stops: what is not on disk is gone, in part."""
        self.halt("power loss")
        for key, log in self.logs.items():
            lost = list(log.lose_power(self.chance(key[1] + 3)))
            if lost:
                self.world.note("%s lost %d batches of %s", self, len(lost), key[1])

    def shut_down(self) -> None:
        """Begin a controlled shutdown."""
        self.lifecycle.shut_down()

    def _end_cleanly(self) -> None:
        self.world.checker.stops(self)
        self.clean_epoch = self.lifecycle.epoch
        for key, replica in self.replicas.items():
            self.logs[key].high_watermark_checkpoint = replica.high_watermark
        for log in self.logs.values():
            log.sync()
        self.halt("controlled shutdown")
        for_s = 0.2 + 2.0 * self.chance(4)
        self.world.at(self.world.now + for_s, lambda: self.world.restart(self))

    # --- controllers

    def ask_controller(self, request: Any, version: int, on_answer: OnAnswer) -> None:
        """Send a request to the active controller, as far as it is known."""
        processes = self.world.controllers.processes
        target = processes[self._controller_at % len(processes)]

        def answered(answer: Any) -> None:
            if answer is None or isinstance(answer, NotController):
                self._controller_at += 1
                on_answer(None)
            else:
                on_answer(answer)

        self.call(target.place, ToController(request, version), _TIMEOUT_S, answered)

    def _beat(self) -> None:
        request = self.lifecycle.next_request(self.image.next_offset - 1, is_ready=self.is_current)
        if request is None:
            self._end_cleanly()
            return
        version = type(request).VERSIONS[-1]
        self.ask_controller(request, version, lambda answer: self._beaten(request, answer))

    def _beaten(self, request: Any, answer: Any) -> None:
        wait = 0.1
        self.has_late_requests |= answer is None
        if answer is not None and isinstance(request, BrokerRegistrationRequest):
            self.lifecycle.on_registered(answer)
        elif answer is not None:
            self.lifecycle.on_heartbeat(answer)
            is_running = self.lifecycle.state is BrokerState.RUNNING
            wait = HEARTBEAT_S if is_running and not answer.error_code else 0.1
        self.after(wait, self._beat)

    # --- the metadata log

    def _fetch_metadata(self) -> None:
        processes = self.world.controllers.processes
        at = int(self.chance(5) * len(processes))
        asked = FetchMetadata(self._read_to)
        self.call(processes[at].place, asked, _TIMEOUT_S, self._records)

    def _records(self, answer: Records | None) -> None:
        if answer is None:
            self.after(0.1, self._fetch_metadata)
            return
        changed: dict[Key, None] = {}
        for offset, epoch, message in answer.records:
            if offset != self._read_to:
                continue
            self._read_to += 1
            if message is None:
                self.loader.skip_to(offset + 1, epoch)
                continue
            self.loader.load(message, offset, epoch)
            if isinstance(message, PartitionRecord | PartitionChangeRecord):
                changed[message.topic_id, message.partition_id] = None
            elif self._is_superseded(message):
                self.world.crash(self, "another process has its id", 1.0)
                return
        own = self.image.brokers.get(self.id)
        if not self.is_current:
            # Before that, the image may say of this broker what was true of its predecessor.
            if own is not None and own.incarnation_id == self.incarnation_id:
                self.is_current = True
                changed = {
                    (topic_id, index): None
                    for topic_id, partitions in self.image.partitions.items()
                    for index in partitions
                }
            else:
                changed = {}
        for key in changed:
            self._apply(key)
        if any(isinstance(one, _OF_BROKERS) for _, _, one in answer.records):
            self._check_replicas()
        self.after(0.0, self._fetch_metadata)

    def _is_superseded(self, message: Message) -> bool:
        return (
            isinstance(message, RegisterBrokerRecord)
            and message.broker_id == self.id
            and self.lifecycle.is_registered
            and self.lifecycle.is_superseded(message)
        )

    def _apply(self, key: Key) -> None:
        """Make a partition what the image says."""
        record = self.image.partitions[key[0]][key[1]]
        if self.id not in record.replicas:
            self.fetchers.stop(key)
            gone = self.replicas.pop(key, None)
            if gone is not None:
                gone.follow(record)
                del self.logs[key]
            return
        replica = self.replicas.get(key)
        if replica is None:
            log = self.logs.get(key)
            if log is None:
                log = self.logs[key] = PartitionLog(self.world.names)
            replica = self.replicas[key] = Replica(self, key, log)
        if record.leader == self.id:
            self.fetchers.stop(key)
            replica.lead(record)
            self.fetches.wake()
            return
        replica.follow(record)
        if record.leader >= 0:
            place = self.world.place_of(record.leader)
            self.fetchers.follow(key, place, record.leader_epoch)
        else:
            self.fetchers.stop(key)

    # --- timers

    def _check_lag(self) -> None:
        self._check_replicas(self.now)
        self.after(self.world.shape.lag_s / 2, self._check_lag)

    def _check_replicas(self, now: float | None = None) -> None:
        """Ask for the changes of ISRs that are due: of followers that lag, if ``now`` is given, and
        of those whose broker was not active when they had everything.
        """
        for key, replica in self.replicas.items():
            if replica.leader is not None:
                lagging = None if now is None else replica.leader.check_lag(now)
                proposal = lagging or replica.leader.look_again()
                if proposal is not None:
                    self.alter_partitions.propose(key, proposal)

    def _checkpoint(self) -> None:
        for key, replica in self.replicas.items():
            log = self.logs[key]
            log.high_watermark_checkpoint = replica.high_watermark
            log.states.remove_expired(self.wall_ms, _DAY_MS)
            if self.chance(6 + key[1]) < 0.3:
                log.sync()
        self.after(_CHECKPOINT_S, self._checkpoint)

    def grown(self, replica: Replica) -> None:
        """A leader's log has grown: followers that wait get the records."""
        self.fetches.wake()

    # --- requests

    def on_request(self, number: int, message: Any) -> None:
        if isinstance(message, FetchRequest):
            self.fetches.ask(number, message)
            return
        replica = self.replicas.get(message.key)
        if isinstance(message, Produce):
            if replica is None:
                self.reply(number, Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            else:
                replica.produce(
                    message.entry, message.acks, lambda answer: self.reply(number, answer)
                )
        elif isinstance(message, Consume):
            is_there = replica is not None and (replica.leader is not None or message.follower)
            self.reply(
                number,
                replica.consume(message.offset, read_committed=message.read_committed)
                if is_there and replica is not None
                else Consumed(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            )
        elif isinstance(message, FindOffsets):
            fault = self.fetches.fault(replica, message.leader_epoch)
            is_there = fault is ErrorCode.NONE and replica is not None
            self.reply(
                number,
                FoundOffsets(fault, replica.log.start_offset, replica.log.end_offset)
                if is_there and replica is not None
                else FoundOffsets(fault),
            )
        elif isinstance(message, DeleteRecords) and replica is not None:
            replica.delete_records(message.before)

    def on_cancelled(self, number: int) -> None:
        self.fetches.forget(number)


def _registration(broker: Broker, previous_epoch: int) -> BrokerRegistrationRequest:
    features = [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED.items()
    ]
    return BrokerRegistrationRequest(
        broker_id=broker.id,
        cluster_id=CLUSTER_ID,
        incarnation_id=broker.incarnation_id,
        features=features,
        log_dirs=[Uuid((0xD0 << 64 | broker.id).to_bytes(16, "big"))],
        previous_broker_epoch=previous_epoch,
    )
