"""Ends every schedule: the faults stop, a random majority is healed, and the quorum must commit
again (invariant 18).

Then no client sends a request, and the quorum must be quiet (invariant 17).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.quorum.events import ImageLacks
from tests.sim.history import Violation, require

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

#: A record must be committed within this time after healing. The slowest clock runs at half the
#: true rate, and timeouts are 2 s.
COMMIT_S: Final = 25.0
#: Every node must have it within this time after that.
CATCH_UP_S: Final = 10.0
_LOOK_S: Final = 0.05
_LATENCY_S: Final = 0.004
_QUIET_S: Final = 1.0
#: The most messages of a node in a second without proposals: a Fetch every half second of a clock
#: that may run twice as fast, and heartbeats.
_MESSAGES_PER_S: Final = 40


def heal(world: World) -> Iterator[float]:
    """Stop the faults and wait until the quorum recovers. Raises Violation when it does not."""
    yield max(0.0, *(node.paused_until - world.now for node in world.members))
    away = _stay_away(world)
    world.note("** everything is healed but %s", [node.id for node in away])
    world.chance.calm = True
    world.network.cut.clear()
    world.faults.latency = _LATENCY_S
    for node in away:
        node.halt("it stays away")
        node.removed = True
    for node in world.members:
        world.restart(node)
        if node.image_lacks is not None:
            node.step(ImageLacks(None))
    yield from _commit(world)
    if world.shape.upgrades:
        yield from _upgrade(world)
    yield from _catch_up(world)
    before = world.network.sent
    yield _QUIET_S
    sent = world.network.sent - before
    require(sent <= _MESSAGES_PER_S * len(world.nodes), "17: {} messages in an idle second", sent)
    for node in world.members:
        require(
            len(node.asked) <= 2 * len(world.nodes),
            "17: node {} has {} unanswered requests",
            node.id,
            len(node.asked),
        )


def _stay_away(world: World) -> list[Node]:
    """Choose at most a minority of the voters. No voter is left out where voters changed, lost
    their disks, or do not campaign.
    """
    random, voters = world.random, world.voters()
    if world.shape.upgrades:
        return []  # the upgrade needs every voter to register its directory
    changed = world.dynamic and (
        world.wiped is not None
        or len(world.checker.committed_voters) > 1
        or world.shape.changes_voters
    )
    non_electable = any(not node.settings.campaigns for node in voters)
    if changed or non_electable or random.random() < 0.4:
        return []
    away = random.sample(voters, random.randint(0, (len(voters) - 1) // 2))
    stay = [node for node in world.members if node not in away]
    # An observer may have adopted a forged epoch from one of those that stay away; it then waits
    # until the others reach that epoch.
    newest = max(_epoch(node) for node in stay if node in voters)
    return away if all(_epoch(node) <= newest for node in stay) else []


def _epoch(node: Node) -> int:
    """The newest epoch that a node knows, or will know when it is back."""
    if node.up:
        return int(node.raft.epoch)
    state = node.disk.election
    return max(state.epoch if state is not None else 0, node.disk.log.last_epoch)


def _commit(world: World) -> Iterator[float]:
    healed, acked = world.now, world.checker.acked
    world.healed_at = healed
    while world.checker.acked == acked:
        if world.now > healed + COMMIT_S:
            raise Violation(f"18: no commit within {COMMIT_S} s after healing: {_state(world)}")
        leader = world.leader
        if leader is not None and not leader.waiting:
            world.propose(leader)
        yield _LOOK_S
    world.recovery_s = world.recovered_at - healed


def _upgrade(world: World) -> Iterator[float]:
    """The static voters can be put into the log, unless they are there already (invariant 19)."""
    healed = world.now
    while not any(batch.kraft_versions for batch in world.checker.committed.batches):
        require(
            world.now <= healed + COMMIT_S,
            "19: no upgrade within {} s after a commit: {}",
            COMMIT_S,
            _state(world),
        )
        leader = world.leader
        if leader is not None and not leader.waiting:
            world.upgrade(leader)
        yield 10 * _LOOK_S


def _catch_up(world: World) -> Iterator[float]:
    until = world.now + CATCH_UP_S
    while not _settled(world):
        if world.now > until:
            raise Violation(f"18: a node lags {CATCH_UP_S} s after a commit: {_state(world)}")
        yield _LOOK_S


def _settled(world: World) -> bool:
    nodes = [node for node in world.members if node.up]
    leading = [node for node in nodes if node.leads]
    if len(leading) != 1:
        return False
    leader, end = leading[0], world.checker.committed.end_offset
    return all(
        node.raft.epoch == leader.raft.epoch
        and node.raft.leader_id == leader.id
        and node.shown == node.raft.high_watermark == leader.disk.view.end_offset == end
        for node in nodes
    )


def _state(world: World) -> str:
    return "; ".join(f"node {node.id} {_node_state(node)}" for node in world.members)


def _node_state(node: Node) -> str:
    if not node.up:
        return "is down"
    raft = node.raft
    return (
        f"{raft.role} epoch {raft.epoch} of {raft.leader_id}, "
        f"shows {node.shown} of {node.disk.view.end_offset}, voters {sorted(raft.voters.nodes)}"
    )
