"""Harms one broker at a time, and brings it back. Each fault returns when its node is ready again;
the others go on meanwhile.

Disks and clocks fail in brokers of kwire alone, whose processes can be started so that they do
(``tools/failing_server.py``).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tools.failing_server import full, slow, step
from tools.kafka_files import Node
from tools.partition_checker.brokers import Brokers

#: Up to longer than a broker's session, s.
_PAUSED_S: Final = (1.0, 7.0)
_CUT_S: Final = (1.0, 9.0)
_DOWN_S: Final = (0.0, 6.0)
#: Whether bytes to the node are cut off, and whether those from it; both in half of the cuts.
_DIRECTIONS: Final = ((True, True), (True, True), (True, False), (False, True))
_RESETS: Final = 5
_STEPS_S: Final = (60, 3600, 6 * 3600)


def kill(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """``kill -9``; it comes back at once, or after its session."""
    cluster = brokers.of(node)
    cluster.kill_node(node)
    time.sleep(rng.uniform(*_DOWN_S))
    cluster.start_node(node)
    cluster.wait_for_node(node)


def kill_at_start(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """``kill -9``, and again while it starts."""
    cluster = brokers.of(node)
    for _ in range(2):
        cluster.kill_node(node)
        cluster.start_node(node)
        time.sleep(rng.uniform(0.1, 1.5))
    cluster.wait_for_node(node)


def pause(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """``kill -STOP``: it still takes itself for a leader when it goes on."""
    cluster = brokers.of(node)
    cluster.pause_node(node)
    time.sleep(rng.uniform(*_PAUSED_S))
    cluster.resume_node(node)


def stutter(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """Pauses as of a disk that is slow: each shorter than a session."""
    cluster = brokers.of(node)
    for _ in range(20):
        cluster.pause_node(node)
        time.sleep(rng.uniform(0.02, 0.2))
        cluster.resume_node(node)
        time.sleep(rng.uniform(0.0, 0.1))


def restart(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """A controlled shutdown, and a start."""
    cluster = brokers.of(node)
    cluster.stop_node(node)
    cluster.start_node(node)
    cluster.wait_for_node(node)


def kill_controller(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """``kill -9`` of the active controller."""
    cluster = brokers.controllers
    leader = cluster.wait_for_leader()
    cluster.kill_node(leader)
    cluster.start_node(leader)
    cluster.wait_for_node(leader)


def cut_brokers(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """The network between it and the other brokers; controllers hear it."""
    _cut(brokers, node, [one.node_id for one in brokers.nodes], rng)


def cut_controllers(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """The network between it and the controllers; it serves on, and is fenced after its session."""
    _cut(brokers, node, _controllers(brokers), rng)


def cut_off(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """The network between it and all other nodes; clients still reach it."""
    _cut(brokers, node, [*_controllers(brokers), *(one.node_id for one in brokers.nodes)], rng)


def reset(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """Its connections to and from all other nodes break with RST, again and again."""
    others = {*_controllers(brokers), *(one.node_id for one in brokers.nodes)} - {node.node_id}
    for _ in range(_RESETS):
        for other in sorted(others):
            brokers.network.reset(node.node_id, other)
        time.sleep(rng.uniform(0.0, 1.0))


def slow_disk(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """Each write and sync takes long."""
    with slow(node, rng.uniform(0.02, 0.5)):
        time.sleep(rng.uniform(*_PAUSED_S))


def full_disk(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """No write to a file of its data succeeds. A node that is a controller, too, ends then, and is
    started when there is space.
    """
    with full(node, f"{node.log_dir}/"):
        time.sleep(rng.uniform(*_PAUSED_S))
    if not node.running_process().running():
        cluster = brokers.of(node)
        cluster.start_node(node)
        cluster.wait_for_node(node)


def clock(brokers: Brokers, node: Node, rng: random.Random) -> None:
    """Its wall clock is set forward or back, and to the true time again: less than any retention,
    and more than any timeout.
    """
    step(node, rng.choice((-1, 1)) * rng.choice(_STEPS_S))
    time.sleep(rng.uniform(*_PAUSED_S))
    step(node, 0)


def ways(
    node: int, others: Iterable[int], *, to_node: bool = True, from_node: bool = True
) -> list[tuple[int, int]]:
    """Return the ways, as (from, to), between a node and others."""
    others = sorted({*others} - {node})
    return [(one, node) for one in others if to_node] + [(node, one) for one in others if from_node]


def _cut(brokers: Brokers, node: Node, others: Iterable[int], rng: random.Random) -> None:
    to_node, from_node = rng.choice(_DIRECTIONS)
    for way in ways(node.node_id, others, to_node=to_node, from_node=from_node):
        brokers.network.cut(*way)
    time.sleep(rng.uniform(*_CUT_S))
    brokers.network.heal()


def _controllers(brokers: Brokers) -> list[int]:
    return [node.node_id for node in brokers.controllers.nodes if node.is_controller()]


class Fault(NamedTuple):
    """A kind of harm, and how often it is drawn. ``deposes``: the node may take itself for a leader
    after others elected another one. ``own``: only brokers of kwire can be harmed so.
    """

    harm: Callable[[Brokers, Node, random.Random], None]
    weight: int
    deposes: bool = False
    own: bool = False


FAULTS: Final[Mapping[str, Fault]] = {
    "kill": Fault(kill, 4),
    "kill-at-start": Fault(kill_at_start, 1),
    "pause": Fault(pause, 3, deposes=True),
    "stutter": Fault(stutter, 1),
    "restart": Fault(restart, 2),
    "kill-controller": Fault(kill_controller, 1),
    "cut-brokers": Fault(cut_brokers, 2, deposes=True),
    "cut-controllers": Fault(cut_controllers, 2, deposes=True),
    "cut-off": Fault(cut_off, 2, deposes=True),
    "reset": Fault(reset, 1),
    "slow-disk": Fault(slow_disk, 1, own=True),
    "full-disk": Fault(full_disk, 1, own=True),
    "clock": Fault(clock, 1, own=True),
}


class Choice(NamedTuple):
    """A fault that was drawn, by its name, and the broker that it harms."""

    kind: str
    node: Node


def choose(
    kinds: Sequence[str],
    nodes: Sequence[Node],
    own: Sequence[Node],
    leader: int,
    rng: random.Random,
) -> Choice:
    """Draw one of the faults ``kinds`` and a broker among ``nodes``: the leader of a partition if
    the fault can harm it, else any other. Brokers in ``own`` are of kwire; without one, faults that
    harm those alone are not drawn.
    """
    possible = [kind for kind in kinds if own or not FAULTS[kind].own]
    [kind] = rng.choices(possible, [FAULTS[kind].weight for kind in possible])
    harmed = own if FAULTS[kind].own else nodes
    # A leader is harmed more often than its share.
    of_leader = [node for node in harmed if node.node_id == leader]
    return Choice(kind, of_leader[0] if of_leader else rng.choice(harmed))
