"""Kills, pauses and cuts off nodes of a quorum under load. Each fault returns when appends are
acknowledged again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from tools.consistency_checker.history import Leadership
from tools.consistency_checker.run import Run
from tools.consistency_checker.watch import Questions
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster
from tools.tcp_proxy import Network

#: Appends acknowledged between two harms: more than the writers may have had in flight before.
APPENDS = 8


def kill_leader(run: Run, rng: random.Random) -> None:
    """``kill -9`` of the leader, started again at once."""
    leader = run.cluster.wait_for_leader()
    since = time.monotonic()
    run.cluster.kill_node(leader)
    run.cluster.start_node(leader)
    run.recovered(since, APPENDS)


def kill_new_leader(run: Run, rng: random.Random) -> None:
    """Kill the leader, and the next one as soon as it is known."""
    first = run.cluster.wait_for_leader()
    run.cluster.kill_node(first)
    second = run.cluster.wait_for_leader()
    since = time.monotonic()
    run.cluster.kill_node(second)
    run.cluster.start_node(first)
    run.cluster.start_node(second)
    run.recovered(since, APPENDS)


def kill_while_starting(run: Run, rng: random.Random) -> None:
    """Kill the leader, and again after a random time that may be too short for it to start or to
    recover.
    """
    leader = run.cluster.wait_for_leader()
    since = time.monotonic()
    for _ in range(3):
        run.cluster.kill_node(leader)
        run.cluster.start_node(leader)
        time.sleep(rng.uniform(0.02, 0.8))
    run.recovered(since, APPENDS)


def kill_follower(run: Run, rng: random.Random) -> None:
    """Kill a node that does not lead."""
    leader = run.cluster.wait_for_leader()
    since, follower = time.monotonic(), rng.choice(_others(run, leader))
    run.cluster.kill_node(follower)
    run.cluster.start_node(follower)
    run.recovered(since, APPENDS)


def kill_two(run: Run, rng: random.Random) -> None:
    """Kill the leader and another node at the same moment: there is no majority until one of them
    is back.
    """
    leader = run.cluster.wait_for_leader()
    since, two = time.monotonic(), [leader, rng.choice(_others(run, leader))]
    for node in two:
        run.cluster.kill_node(node)
    time.sleep(rng.uniform(0, 0.5))
    for node in two:
        run.cluster.start_node(node)
    run.recovered(since, APPENDS)


def kill_all(run: Run, rng: random.Random) -> None:
    """Kill all nodes: acknowledged appends are only on disks."""
    run.cluster.wait_for_leader()
    since = time.monotonic()
    for node in run.cluster.nodes:
        run.cluster.kill_node(node)
    for node in run.cluster.nodes:
        run.cluster.start_node(node)
    run.recovered(since, APPENDS)


def pause_leader(run: Run, rng: random.Random) -> list[Leadership | None]:
    """Pause the leader (SIGSTOP) for longer than its lease, and record its first responses after it
    continues.

    It receives requests while it is paused, after the next leader has acknowledged appends, so that
    it answers them first. The checker judges its responses as a leader.
    """
    cluster, paused = run.cluster, run.cluster.wait_for_leader()
    since = time.monotonic()
    cluster.pause_node(paused)
    cluster.wait_for_leader()
    run.recovered(since, APPENDS)
    with Questions(paused) as asked:
        cluster.resume_node(paused)
        answers = asked.answers()
    run.watch.seen += [answer for answer in answers if answer is not None]
    run.writers.wait_for(APPENDS)
    return answers


def cut_off_leader(run: Run, rng: random.Random) -> None:
    """Cut off the leader from the others in both directions, for a while."""
    network, leader = network_of(run), run.cluster.wait_for_leader()
    since = time.monotonic()
    network.isolate(leader.node_id)
    _wait_for_another(run, leader, since)
    time.sleep(rng.uniform(0, 1))
    network.heal()
    run.writers.wait_for(APPENDS)


def deafen_leader(run: Run, rng: random.Random) -> None:
    """Keep the others' requests from the leader, which can still send: it must resign, because it
    gets no requests from a majority.
    """
    network, leader = network_of(run), run.cluster.wait_for_leader()
    since = time.monotonic()
    for other in _others(run, leader):
        network.cut(other.node_id, leader.node_id)
    _wait_for_another(run, leader, since)
    network.heal()
    run.writers.wait_for(APPENDS)


def silence_leader(run: Run, rng: random.Random) -> None:
    """Keep the leader's responses and requests from the others; their requests still reach it. They
    must elect another leader.
    """
    network, leader = network_of(run), run.cluster.wait_for_leader()
    since = time.monotonic()
    for other in _others(run, leader):
        network.cut(leader.node_id, other.node_id)
    _wait_for_another(run, leader, since)
    network.heal()
    run.writers.wait_for(APPENDS)


def cut_off_follower(run: Run, rng: random.Random) -> None:
    """Cut off a node that does not lead. The others continue, and on its return it must not depose
    a working leader.
    """
    network, leader = network_of(run), run.cluster.wait_for_leader()
    since, follower = time.monotonic(), rng.choice(_others(run, leader))
    network.isolate(follower.node_id)
    run.recovered(since, APPENDS)
    time.sleep(rng.uniform(0.5, 2))
    network.heal()
    run.writers.wait_for(APPENDS)


def reset_connections(run: Run, rng: random.Random) -> None:
    """Reset all connections between the leader and the others (RST); some responses are lost."""
    network, leader = network_of(run), run.cluster.wait_for_leader()
    since = time.monotonic()
    for _ in range(5):
        for other in _others(run, leader):
            network.reset(leader.node_id, other.node_id)
        time.sleep(0.05)
    run.recovered(since, APPENDS)


Fault = Callable[[Run, random.Random], object]
#: Faults of processes alone, by name, with a weight.
KILLS: Mapping[str, tuple[Fault, int]] = {
    "leader": (kill_leader, 12),
    "new leader": (kill_new_leader, 2),
    "while starting": (kill_while_starting, 2),
    "follower": (kill_follower, 1),
    "two": (kill_two, 2),
    "all": (kill_all, 1),
}


def network_of(run: Run) -> Network:
    """The proxies between the nodes. Raises TypeError for a cluster without them."""
    if not isinstance(run.cluster, OwnCluster) or run.cluster.network is None:
        raise TypeError("the cluster has no network that can be cut: own_quorum(network=Network())")
    return run.cluster.network


def _wait_for_another(run: Run, leader: Node, since: float) -> None:
    """Return when another node leads and acknowledges."""
    run.recovered(since, 1)
    deadline = time.monotonic() + 30
    while run.cluster.wait_for_leader() is leader:
        if time.monotonic() > deadline:
            raise AssertionError(
                f"node {leader.node_id}, cut off, still is the newest leader after 30 s"
            )
        time.sleep(0.02)
    run.writers.wait_for(APPENDS)


def _others(run: Run, node: Node) -> list[Node]:
    return [other for other in run.cluster.nodes if other is not node]
