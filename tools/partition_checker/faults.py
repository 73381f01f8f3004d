"""Harms one broker at a time, and brings it back. Each fault returns when its node is ready again;
the others go on meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from tools.kafka_files import Node
from tools.partition_checker.brokers import Brokers

#: Longer than a broker's session, s.
_PAUSED_S = (1.0, 7.0)
_DOWN_S = (0.0, 6.0)


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


#: With how often each is drawn.
FAULTS: Mapping[str, tuple[Callable[[Brokers, Node, random.Random], None], int]] = {
    "kill": (kill, 4),
    "kill-at-start": (kill_at_start, 1),
    "pause": (pause, 3),
    "stutter": (stutter, 1),
    "restart": (restart, 2),
    "kill-controller": (kill_controller, 1),
}
