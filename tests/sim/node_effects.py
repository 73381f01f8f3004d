"""Performs the effects of a simulated node's core: one function for each kind of effect.

They stand for the work of ``gateway/server/quorum/raft_driver.py``. Each passes the effect to the
checker first, then to the disk, the network or the proposals that wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.quorum.effects import (
    AbandonSnapshot,
    Accepted,
    Advance,
    Append,
    BeginSnapshot,
    InstallSnapshot,
    LeaderChanged,
    Leading,
    NotLeading,
    Persist,
    Refused,
    Reply,
    Report,
    Send,
    ShutDownComplete,
    SnapshotChunk,
    Stop,
    Truncate,
)
from kwire.messages.describe_quorum_response import DescribeQuorumResponse
from kwire.messages.fetch_response import FetchResponse
from tests.sim import chance
from tests.sim.history import require

if TYPE_CHECKING:
    from tests.sim.node import Node


def _disk(node: Node, effect: Any) -> None:
    node.disk.accept(effect)


def _persist(node: Node, effect: Persist) -> None:
    node.world.checker.persists(node, effect)
    node.disk.accept(effect)


def _append(node: Node, effect: Append) -> None:
    node.world.checker.appends(node, effect.base_offset)
    batches = node.disk.accept(effect)
    node.world.checker.appended(node, batches)
    if any(batch.voters or batch.kraft_versions for batch in batches):
        node.voters_changed = True


def _truncate(node: Node, effect: Truncate) -> None:
    node.world.checker.truncates(node, effect)
    node.disk.accept(effect)
    node.world.checker.voters_in_force(node)


def _reply(node: Node, effect: Reply) -> None:
    message = effect.message
    if isinstance(message, FetchResponse) and message.responses:
        node.world.checker.fetch_response(node, message.responses[0].partitions[0].high_watermark)
    elif (
        isinstance(message, DescribeQuorumResponse)
        and message.topics
        and not message.topics[0].partitions[0].error_code
    ):
        # Checked now and not when it leaves, perhaps long after: the response describes the moment
        # of the request.
        node.world.checker.still_leads(node, "answers as leader")
    _wire(node, effect)


def _wire(node: Node, effect: Send | Reply) -> None:
    if effect.after > node.disk.durable:
        node.held.append(effect)
    else:
        release(node, effect)


def release(node: Node, effect: Send | Reply) -> None:
    """A message leaves the node: all that it promises is durable."""
    if isinstance(effect, Send):
        node.sends[effect.number] = effect
        node.world.network.send(node, effect)
    else:
        node.world.network.reply(node, effect)


def _advance(node: Node, effect: Advance) -> None:
    node.world.checker.advances(node, effect)
    if node.world.chance.happens(chance.REMEMBER, node.place, -1, 0.3):
        node.disk.high_watermark = effect.high_watermark
    for number, (base, end) in list(node.waiting.items()):
        if end <= effect.high_watermark:
            del node.waiting[number]
            node.world.acknowledged(number, base, end)


def _leading(node: Node, effect: Leading) -> None:
    node.world.checker.leading(node, effect)
    node.led_since, node.fetched_at = node.local_now, {}


def _not_leading(node: Node, _effect: NotLeading) -> None:
    node.waiting.clear()


def _accepted(node: Node, effect: Accepted) -> None:
    node.world.checker.accepted(node, effect.number, effect.base_offset, effect.end_offset)
    node.waiting[effect.number] = (effect.base_offset, effect.end_offset)


def _refused(node: Node, effect: Refused) -> None:
    node.world.checker.refused(effect.number)


def _stop(node: Node, effect: Stop) -> None:
    require(node.world.may_stop(node), "13: node {} stops: {}", node.id, effect.reason)
    node.stopped = effect.reason
    node.halt(f"it stops: {effect.reason}")


def _shut_down(node: Node, _effect: ShutDownComplete) -> None:
    node.world.crash(node, "it was shut down")


def _nothing(node: Node, _effect: Any) -> None:
    """Effects that concern only the log file or the controller."""


#: The function for each type of effect.
PERFORM: Final[dict[type, Callable[[Node, Any], None]]] = {
    Persist: _persist,
    Append: _append,
    Truncate: _truncate,
    BeginSnapshot: _disk,
    SnapshotChunk: _disk,
    InstallSnapshot: _disk,
    AbandonSnapshot: _disk,
    Send: _wire,
    Reply: _reply,
    Advance: _advance,
    LeaderChanged: _nothing,
    Leading: _leading,
    NotLeading: _not_leading,
    Accepted: _accepted,
    Refused: _refused,
    ShutDownComplete: _shut_down,
    Stop: _stop,
    Report: _nothing,
}
