"""Sends the same random changes of brokers and partitions to Kafka's controller and to kwire's.

The brokers are simulated: they register, send heartbeats, and send requests as leaders of
partitions. The next request depends on kwire's responses so far. Every response is compared, so
both controllers get the same requests.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from gateway.controller.brokers import registered
from gateway.controller.features import default_features
from gateway.controller.partition_change import is_reassigning
from kwire.message import Message
from kwire.messages.partition_record import PartitionRecord
from kwire.uuid import Uuid
from tests.gateway.controller.cluster import Cluster, create, made, whole
from tests.interop.test_controller_answers import unlike

BROKERS: Final = (11, 12, 13, 14)
#: Only partitions of MOVED are reassigned. These topics need one replica in sync, KEPT more: Kafka
#: 4.3.1 keeps removed replicas in the ELR, and kwire does not.
MOVED, KEPT = ("moved-1", "moved-2"), ("kept-1", "kept-2")
PARTITIONS = 2
#: As if the broker had read everything, whatever there is.
_READ_ALL: Final = 1 << 40
#: Fields that differ between any two clusters.
_NOT_COMPARED: Final = frozenset({"topicId", "throttleTimeMs", "brokerEpoch", "configs"})


def _same(request: Message, _side: Side) -> Message:
    return request


@dataclass
class Side:
    """One of the two: how it is asked, and what it calls brokers' lives and topics."""

    ask: Callable[[Message, int], Any]
    cluster_id: str
    epochs: dict[int, int] = field(default_factory=dict)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)


#: Makes a request for one side.
Ask = Callable[[Side], Message]


class Life:
    """``kwires`` is the cluster in memory, ``real`` a side that asks Kafka."""

    def __init__(self, kwires: Cluster, real: Side, seed: int) -> None:
        self.cluster = kwires
        self.sides = (Side(self._ours, kwires.settings.cluster_id), real)
        self.rng = random.Random(seed)
        self.asked = 0
        self.differences: list[str] = []

    def run(self, steps: int) -> None:
        """Begin with all brokers there, and ask so many questions."""
        for broker_id in BROKERS:
            self.register(broker_id)
            self.heartbeat(broker_id)
        for _ in range(steps):
            what, _ = self.rng.choices(_HAPPENS, [weight for _, weight in _HAPPENS])[0]
            what(self)
        self.cluster.check()

    def _ours(self, request: Message, version: int) -> Any:
        """kwire's response. Its state is compared with its log only at the end, because doing
        so after each request takes too long.
        """
        decision = self.cluster.decide(request, version)
        if decision.operation is not None:
            self.cluster.commit(decision.operation)
        answer = whole(decision.answer)
        return type(answer).decode(answer.encode(version), version)

    def both(self, ask: Ask, version: int | None = None) -> tuple[Any, Any]:
        """The two responses, kwire's first; a difference is noted."""
        requests = [ask(side) for side in self.sides]
        at = type(requests[0]).VERSIONS[-1] if version is None else version
        kwires, real = (
            side.ask(request, at) for side, request in zip(self.sides, requests, strict=True)
        )
        self.asked += 1
        for where in unlike(to_the_word(real.to_json(at)), to_the_word(kwires.to_json(at))):
            self.differences.append(f"{self.asked}. {requests[0].to_json(at)}: {where}")
        return kwires, real

    # --- what happens

    def register(self, broker_id: int | None = None) -> None:
        who = self.rng.choice(BROKERS) if broker_id is None else broker_id
        clean, life = self.rng.random() < 0.5, self.rng.getrandbits(120)
        ranges = {"metadata.version": (7, 30), "kraft.version": (0, 1)}
        ranges |= {name: (0, level) for name, level in default_features(30).items()}
        features = [
            {"name": n, "min_supported_version": low, "max_supported_version": high}
            for n, (low, high) in ranges.items()
        ]
        answers = self.both(
            lambda side: made(
                "BrokerRegistrationRequest",
                broker_id=who,
                cluster_id=side.cluster_id,
                incarnation_id=Uuid(life.to_bytes(16, "big")),
                previous_broker_epoch=side.epochs.get(who, -1) if clean else -1,
                log_dirs=_directories(who),
                listeners=[
                    {"name": "BROKER", "host": "127.0.0.1", "port": 1, "security_protocol": 0}
                ],
                features=features,
            )
        )
        for side, answer in zip(self.sides, answers, strict=True):
            if not answer.error_code:
                side.epochs[who] = answer.broker_epoch

    def heartbeat(self, broker_id: int | None = None) -> None:
        who, wants = broker_id, {}
        if who is None:
            who = self.rng.choice(BROKERS)
            wants = {
                "want_fence": self.rng.random() < 0.25,
                "want_shut_down": self.rng.random() < 0.1,
            }
            broker = self.cluster.image.brokers.get(who)
            if (
                broker is not None and broker.in_controlled_shutdown
            ):  # no broker stays that has begun to leave
                wants = {"want_shut_down": True}
            self._all_have_read(who)
        failed = [_directories(who)[1]] if broker_id is None and self.rng.random() < 0.03 else []
        self.both(
            lambda side: made(
                "BrokerHeartbeatRequest",
                broker_id=who,
                broker_epoch=side.epochs[who],
                current_metadata_offset=_READ_ALL,
                offline_log_dirs=failed,
                cordoned_log_dirs=[],
                **wants,
            )
        )

    def _all_have_read(self, leaving: int) -> None:
        """A broker in controlled shutdown waits until the others have caught up. Kafka forgets
        how far a broker has read when its registration changes, until its next heartbeat; kwire
        does not.
        """
        brokers, sessions = self.cluster.image.brokers, self.cluster.controller._sessions
        leave = {
            broker_id
            for broker_id, broker in brokers.items()
            if sessions.leaving_at(registered(broker)) is not None
        }
        if leaving in leave:
            for broker_id in [
                one for one, broker in brokers.items() if not broker.fenced and one not in leave
            ]:
                self.heartbeat(broker_id)

    def unregister(self) -> None:
        """A broker that has left is forgotten, and seldom another one; only so it can come again in
        this short life.
        """
        brokers = self.cluster.image.brokers
        left = [
            one
            for one, broker in brokers.items()
            if broker.fenced and broker.in_controlled_shutdown
        ]
        if left or self.rng.random() < 0.2:
            request = made("UnregisterBrokerRequest", broker_id=self.rng.choice(left or BROKERS))
            self.both(lambda side: request)

    def create(self) -> None:
        name = self.rng.choice(MOVED + KEPT)
        configs = {"min.insync.replicas": "1" if name in MOVED else self.rng.choice("23")}
        configs["unclean.leader.election.enable"] = self.rng.choice(("true", "false"))
        size = self.rng.randint(1, 3)
        where = [
            {"partition_index": i, "broker_ids": self.rng.sample(BROKERS, size)}
            for i in range(PARTITIONS)
        ]
        topic = {
            "name": name,
            "assignments": where,
            "configs": [{"name": k, "value": v} for k, v in configs.items()],
        }
        request = create(topic)
        answers = self.both(lambda side: request)
        for side, answer in zip(self.sides, answers, strict=True):
            if not answer.topics[0].error_code:
                side.topic_ids[name] = answer.topics[0].topic_id

    def place(self) -> None:
        """Where the controller would put partitions is for its dice, so it is only asked whether it
        could.
        """
        size, name = self.rng.randint(0, 5), self.rng.choice(MOVED + KEPT)
        topic = {
            "name": f"new-{name}",
            "num_partitions": self.rng.randint(1, 4),
            "replication_factor": size,
        }
        request = create(topic, validate_only=True)
        more = [{"name": name, "count": self.rng.randint(1, 4), "assignments": None}]
        if self.rng.random() < 0.5:
            more[0] |= {
                "count": PARTITIONS + 1,
                "assignments": [{"broker_ids": self.rng.sample((*BROKERS, 15), size)}],
            }
        grow = made("CreatePartitionsRequest", topics=more, timeout_ms=30_000, validate_only=True)
        for one in (request, grow):
            self.both(partial(_same, one))

    def delete(self) -> None:
        image, name = self.cluster.image, self.rng.choice(MOVED + KEPT)
        # Of a partition without an ISR Kafka remembers the directories, and fails when one of them
        # does.
        whole = name not in image.topic_ids or all(
            one.isr for one in image.partitions[image.topic_ids[name]].values()
        )
        if whole and self.rng.random() < 0.1:
            request = made("DeleteTopicsRequest", topics=[{"name": name}], timeout_ms=30_000)
            self.both(lambda side: request)

    def alter(self) -> None:
        name, now = self.partition()
        if now is None:
            return
        leader = now.leader if self.rng.random() < 0.95 else self.rng.choice(BROKERS)
        isr = self.rng.sample(now.replicas, self.rng.randint(0, len(now.replicas)))
        if leader not in isr and self.rng.random() < 0.95:
            isr.append(leader)
        asked = {
            "partition_index": now.partition_id,
            "leader_epoch": now.leader_epoch
            + (self.rng.choice((-1, 1)) if self.rng.random() < 0.05 else 0),
            "partition_epoch": now.partition_epoch
            + (self.rng.choice((-1, 1)) if self.rng.random() < 0.05 else 0),
            "leader_recovery_state": int(self.rng.random() < 0.05),
        }
        version, stale = self.rng.choice((2, 3)), self.rng.random() < 0.05

        def ask(side: Side) -> Message:
            with_epochs = [
                {"broker_id": one, "broker_epoch": side.epochs.get(one, 7) - stale} for one in isr
            ]
            members = {"new_isr_with_epochs": with_epochs} if version == 3 else {"new_isr": isr}
            topics = [{"topic_id": side.topic_ids[name], "partitions": [{**asked, **members}]}]
            request = {
                "broker_id": leader,
                "broker_epoch": side.epochs.get(leader, 7),
                "topics": topics,
            }
            return made("AlterPartitionRequest", **request)

        self.both(ask, version)

    def move(self) -> None:
        name, now = self.partition(MOVED)
        to = None if self.rng.random() < 0.2 else self.rng.sample(BROKERS, self.rng.randint(1, 3))
        if now is None or (is_reassigning(now) and not _replaces(now, to)):
            return
        partitions = [{"partition_index": now.partition_id, "replicas": to}]
        may_resize = self.rng.random() < 0.8
        request = made(
            "AlterPartitionReassignmentsRequest",
            topics=[{"name": name, "partitions": partitions}],
            allow_replication_factor_change=may_resize,
            timeout_ms=30_000,
        )
        self.both(lambda side: request)

    def list_moves(self) -> None:
        request = made("ListPartitionReassignmentsRequest", topics=None, timeout_ms=30_000)
        self.both(lambda side: request)

    def elect(self) -> None:
        asked = [
            {"topic": name, "partitions": [0, 1, 2]} for name in self.rng.sample(MOVED + KEPT, 2)
        ]
        kind = self.rng.randrange(2)
        wanted = asked if self.rng.random() < 0.8 else None
        request = made(
            "ElectLeadersRequest", election_type=kind, topic_partitions=wanted, timeout_ms=30_000
        )
        self.both(lambda side: request)

    def assign(self) -> None:
        name, now = self.partition()
        if now is None:
            return
        who = self.rng.choice(BROKERS)
        broker = self.cluster.image.brokers.get(who)
        # One that is there: else Kafka decides on the ISR as it was before, and writes what it has
        # written already.
        directory = self.rng.choice(_directories(who) if broker is None else broker.log_dirs)
        indexes = [{"partition_index": now.partition_id}]

        def ask(side: Side) -> Message:
            topics = [{"topic_id": side.topic_ids[name], "partitions": indexes}]
            told = [{"id": directory, "topics": topics}]
            return made(
                "AssignReplicasToDirsRequest",
                broker_id=who,
                broker_epoch=side.epochs[who],
                directories=told,
            )

        self.both(ask)

    def partition(
        self, names: tuple[str, ...] = MOVED + KEPT
    ) -> tuple[str, PartitionRecord | None]:
        image = self.cluster.image
        there = [name for name in names if name in image.topic_ids]
        if not there:
            return "", None
        name = self.rng.choice(there)
        return name, image.partitions[image.topic_ids[name]][self.rng.randrange(PARTITIONS)]


_HAPPENS: Final[tuple[tuple[Callable[[Life], None], int], ...]] = (
    (Life.register, 5),
    (Life.unregister, 3),
    (Life.heartbeat, 22),
    (Life.create, 4),
    (Life.delete, 4),
    (Life.alter, 30),
    (Life.move, 8),
    (Life.list_moves, 1),
    (Life.elect, 4),
    (Life.assign, 3),
    (Life.place, 2),
)


def _replaces(now: PartitionRecord, to: list[int] | None) -> bool:
    """Is nothing of the move that is under way in the way? Kafka 4.3.1 goes on to remove, or add,
    whom ``to`` does not.
    """
    if to is None:
        return True
    adds = set(to) - set(now.replicas) or set(now.adding_replicas) <= set(to)
    removes = set(now.replicas) - set(to) or not now.removing_replicas
    return bool(adds and removes)


def _directories(broker_id: int) -> list[Uuid]:
    return [Uuid(bytes([number, broker_id]) * 8) for number in (0xD0, 0xD1)]


def to_the_word(value: Any) -> Any:
    """An answer without what no two clusters say alike, its items in an order of their own."""
    if isinstance(value, dict):
        return {key: to_the_word(inner) for key, inner in value.items() if key not in _NOT_COMPARED}
    if isinstance(value, list):
        return sorted((to_the_word(one) for one in value), key=repr)
    return value
