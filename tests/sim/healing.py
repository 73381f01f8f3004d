"""The end of every schedule: faults stop, a random core of the quorum is healed, and it must come
to work again (18).

Then nothing is asked any more, and the quorum must be quiet (17).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tests.sim.invariants import Violation, require

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

#: A record must be committed so many seconds after healing; the slowest clock runs at half the true
#: rate, timeouts are 2 s.
COMMIT_S: Final = 25.0
#: And everybody must have it so much later.
CATCH_UP_S: Final = 10.0
_LOOK_S: Final = 0.05
_LATENCY_S: Final = 0.004
_QUIET_S: Final = 1.0
#: Messages of a node in a second without proposals: Fetch every half second of a clock that may run
#: twice as fast, heartbeats.
_MESSAGES_PER_S: Final = 40


def heal(world: World) -> Iterator[float]:
    """Stop the faults and see the quorum recover; raises Violation when it does not."""
    yield max(0.0, *(node.paused_until - world.now for node in world.ours))
    away = _stay_away(world)
    world.note("** everything is healed but %s", [node.id for node in away])
    world.chance.calm = True
    world.network.cut.clear()
    world.faults.latency = _LATENCY_S
    for node in away:
        node.die("it stays away")
        node.removed = True
    for node in world.ours:
        world.restart(node)
    yield from _commit(world)
    if world.shape.upgrades:
        yield from _upgrade(world)
    yield from _catch_up(world)
    before = world.network.sent
    yield _QUIET_S
    sent = world.network.sent - before
    require(sent <= _MESSAGES_PER_S * len(world.nodes), "17: {} messages in an idle second", sent)
    for node in world.ours:
        require(
            len(node.asked) <= 2 * len(world.nodes),
            "17: node {} owes {} answers",
            node.id,
            len(node.asked),
        )


def _stay_away(world: World) -> list[Node]:
    """A minority of the voters, at most. Everybody is needed where voters changed, were lost, or do
    not campaign.
    """
    rng, voters = world.rng, world.voters()
    if world.shape.upgrades:
        return []  # all have to say what they are
    changed = world.dynamic and (
        world.wiped is not None
        or len(world.checker.committed_voters) > 1
        or world.shape.changes_voters
    )
    witnesses = any(not node.settings.campaigns for node in voters)
    if changed or witnesses or rng.random() < 0.4:
        return []
    away = rng.sample(voters, rng.randint(0, (len(voters) - 1) // 2))
    stay = [node for node in world.ours if node not in away]
    # An observer may believe an epoch that somebody made up for one of those; it waits until the
    # others get there.
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
            raise Violation(
                f"18: nothing is committed {COMMIT_S} s after everything was healed: {_state(world)}"
            )
        leader = world.leader
        if leader is not None and not leader.waiting:
            world.propose(leader)
        yield _LOOK_S
    world.recovery_s = world.recovered_at - healed


def _upgrade(world: World) -> Iterator[float]:
    """Voters of the configuration can be put into the log, if they were not before (19)."""
    healed = world.now
    while not any(batch.kraft_versions for batch in world.checker.committed.batches):
        require(
            world.now <= healed + COMMIT_S,
            "19: {} s after a commit there is no upgrade: {}",
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
            raise Violation(
                f"18: not everybody is caught up {CATCH_UP_S} s after a commit: {_state(world)}"
            )
        yield _LOOK_S


def _settled(world: World) -> bool:
    nodes = [node for node in world.ours if node.up]
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
    return "; ".join(
        f"node {node.id} " + (f"{node.raft.role} epoch {node.raft.epoch} of {node.raft.leader_id}, shows {node.shown} of "
                              f"{node.disk.view.end_offset}, voters {sorted(node.raft.voters.nodes)}" if node.up else "is down")
        for node in world.ours
    )  # fmt: skip
