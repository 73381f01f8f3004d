"""Bugs in relays: what an observer tells the observers that follow it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

from gateway.quorum.relaying import Relaying
from gateway.quorum.replicated_log import ValidOffsetAndEpoch
from tests.patches import patched
from tests.sim.mutant_registry import Mutants

Context = AbstractContextManager[Any]
MUTANTS: Final = Mutants()


@MUTANTS.register("an obvious mistake")
def relay_tells_its_end_as_committed() -> Context:
    """A relay names the end of its own log as the high watermark, committed or not."""

    def end(self: Relaying) -> int:
        return max(self._node.log.end_offset, self._node.leader_high_watermark)

    return patched(Relaying, _told=property(end))


@MUTANTS.register("an obvious mistake")
def relay_judges_as_a_leader() -> Context:
    """A relay lets an observer that is ahead of it truncate, as a leader would."""

    def judge(self: Relaying, offset: int, epoch: int) -> ValidOffsetAndEpoch:
        return self._node.log.validate(offset, epoch)

    return patched(Relaying, _validate=judge)


@MUTANTS.register("an obvious mistake")
def relay_gives_out_what_is_not_committed() -> Context:
    """A relay answers with all records that it has, and their end as committed."""
    answer = Relaying._answer

    def everything(self: Relaying, asked: Any, *, now_or_never: bool) -> bool:
        node = self._node
        committed, node.high_watermark = node.high_watermark, node.log.end_offset
        try:
            return answer(self, asked, now_or_never=now_or_never)
        finally:
            node.high_watermark = committed

    return patched(Relaying, _answer=everything)
