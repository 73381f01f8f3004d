"""Runs one schedule of brokers: the world holds the time, the processes and the network; the
checker watches.

``BrokerWorld(seed, family).run()`` raises :class:`Violation`. Equal arguments give an equal run, in
every process.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.uuid import Uuid
from tests.sim.brokers.broker import Broker
from tests.sim.brokers.checker import BrokerChecker
from tests.sim.brokers.connections import Connections
from tests.sim.brokers.consumers import Consumer
from tests.sim.brokers.controllers import Controllers, MetadataLog, NotController, ToController
from tests.sim.brokers.messages import Key
from tests.sim.brokers.partition_log import Names
from tests.sim.brokers.processes import SimulatedProcess
from tests.sim.brokers.producers import Producer, UnsureProducer
from tests.sim.brokers.shapes import Faults, Shape
from tests.sim.brokers.transactions import TransactionalProducer
from tests.sim.outcome import Outcome
from tests.sim.timeline import Timeline

if TYPE_CHECKING:
    from tests.sim.brokers.families import Family
    from tests.sim.chance import Fault

TOPIC: Final = "orders"
PRODUCER_IDS: Final = 2001
CONSUMER_IDS: Final = 3001
_STARTED_S: Final = 30.0
#: A controller that does not lead any more creates no topic.
_ASK_AGAIN_S: Final = 5.0


class Admin(SimulatedProcess):
    """A client that changes the cluster, at whichever controller is active."""

    def __init__(self, world: BrokerWorld) -> None:
        super().__init__(world, 4001)
        self.up = True
        self.answers: list[Any] = []

    def ask(self, request: Any, version: int | None = None) -> None:
        """Send a request to the active controller, if there is one."""
        active = self.world.controllers.active
        if active is not None:
            newest = type(request).VERSIONS[-1] if version is None else version
            self.call(active.place, ToController(request, newest), 3.0, self._heard)

    def _heard(self, answer: Any) -> None:
        if answer is not None and not isinstance(answer, NotController):
            self.answers.append(answer)


class BrokerWorld(Timeline[SimulatedProcess]):
    """One schedule. ``only``: the faults that may happen, None for all. ``noting``: keep a trace in
    ``notes``.
    """

    network: Connections
    checker: BrokerChecker

    def __init__(
        self,
        seed: int,
        family: Family,
        *,
        only: Collection[Fault] | None = None,
        noting: bool = False,
    ) -> None:
        super().__init__(seed, only=only, noting=noting)
        self.scenario = family
        self.shape, self.faults = Shape.draw(self.random), Faults.draw(self.random)
        family.prepare(self.random, self.shape, self.faults)
        self.nodes: list[SimulatedProcess] = []
        self.network = Connections(self)
        self.names = Names()
        self.metadata = MetadataLog()
        self.checker = BrokerChecker(self)
        self.keys: list[Key] = []
        self.producers: list[UnsureProducer] = []
        self.consumers: list[Consumer] = []
        self.controllers = Controllers(self, self.shape.controllers)
        self.brokers = [Broker(self, id) for id in range(1, self.shape.brokers + 1)]
        self.admin = Admin(self)
        for one in (*self.controllers.processes, *self.brokers):
            spread = 1.0 + self.faults.clock_spread
            one.clock_rate = spread ** self.random.uniform(-1.0, 1.0)
        #: The broker whose power was lost, until it is in sync again.
        self.powerless: Broker | None = None

    def run(self) -> Outcome:
        """Run the schedule to its end."""
        for one in (*self.controllers.processes, *self.brokers):
            self.at(self.random.random() * 0.1, partial(self.restart, one))
        return self.outcome_of(self._play())

    def _play(self) -> Iterator[float]:
        self.chance.calm = True
        yield from self._begin()
        self.chance.calm = False
        yield from self.scenario.play(self)

    def _begin(self) -> Iterator[float]:
        """Wait for the brokers, create the topic, and start the clients."""
        lose, self.faults.lose = self.faults.lose, 0.0
        while not self._all_unfenced():
            assert self.now < _STARTED_S, "the brokers do not start"
            yield 0.1
        asked_at = -math.inf
        while TOPIC not in self.metadata.image.topic_ids:
            assert self.now < _STARTED_S, "the topic is not created"
            if self.now >= asked_at + _ASK_AGAIN_S:
                asked_at = self.now
                self.admin.ask(self._topic())
            yield 0.05
        topic_id = self.metadata.image.topic_ids[TOPIC]
        self.keys = [(topic_id, index) for index in range(self.shape.partitions)]
        self._add_clients()
        self.faults.lose = lose

    def _all_unfenced(self) -> bool:
        registered = self.metadata.image.brokers
        return all(one.id in registered and not registered[one.id].fenced for one in self.brokers)

    def _topic(self) -> CreateTopicsRequest:
        shape = self.shape
        ids = [one.id for one in self.brokers]
        assignments = [
            CreatableReplicaAssignment(
                partition_index=index,
                broker_ids=[ids[(index + n) % len(ids)] for n in range(shape.replicas)],
            )
            for index in range(shape.partitions)
        ]
        configs = {
            "min.insync.replicas": str(shape.min_isr),
            "unclean.leader.election.enable": str(shape.unclean).lower(),
        }
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=[
                CreatableTopicConfig(name=name, value=value) for name, value in configs.items()
            ],
        )
        return CreateTopicsRequest(topics=[topic])

    def _add_clients(self) -> None:
        shape = self.shape
        ids = iter(range(PRODUCER_IDS, CONSUMER_IDS))
        for key in self.keys:
            for _ in range(shape.idempotent):
                self.producers.append(Producer(self, next(ids), key))
            for _ in range(shape.transactional):
                self.producers.append(TransactionalProducer(self, next(ids), key))
            for _ in range(shape.unsure):
                self.producers.append(UnsureProducer(self, next(ids), key))
        readers = iter(range(CONSUMER_IDS, CONSUMER_IDS + 100))
        for key in self.keys:
            for n in range(shape.consumers):
                self.consumers.append(
                    Consumer(self, next(readers), key, read_committed=n % 2 == 0, closest=n > 0)
                )
        for one in (*self.producers, *self.consumers):
            one.start()

    # --- looking up

    def broker(self, id: int) -> Broker:
        """The broker of that id."""
        return self.brokers[id - 1]

    def place_of(self, id: int) -> int:
        """Where a broker is."""
        return self.broker(id).place

    def leader_as_told(self, client: SimulatedProcess, key: Key, known: int) -> tuple[int, int]:
        """The place of the leader and its epoch, as one of the brokers tells a client that knows
        the leader epoch ``known``; place -1: no leader, or an older one.
        """
        told = [one for one in self.brokers if one.up]
        if told:
            broker = told[int(client.chance(11) * len(told))]
            record = broker.image.partitions.get(key[0], {}).get(key[1])
            if record is not None and record.leader >= 0 and record.leader_epoch >= known:
                return self.place_of(record.leader), record.leader_epoch
        return -1, known

    def any_replica(self, client: SimulatedProcess, key: Key) -> int:
        """The place of some replica."""
        replicas = self.record(key).replicas
        return self.place_of(replicas[int(client.chance(12) * len(replicas))])

    def record(self, key: Key) -> Any:
        """The record of a partition, as it is decided."""
        return self.metadata.image.partitions[key[0]][key[1]]

    def leader(self, key: Key) -> Broker | None:
        """The broker that is elected to lead a partition."""
        id = self.record(key).leader
        return None if id < 0 else self.broker(id)

    def topic_id(self) -> Uuid:
        """The id of the topic."""
        return self.keys[0][0]

    def answered(self, node: Any, request: Any, answer: Any) -> None:
        """No client asks without a process."""
