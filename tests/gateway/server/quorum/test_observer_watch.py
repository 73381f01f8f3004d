"""The time since which an observer's copy is complete: it begins anew after each time behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from gateway.server.quorum.observer_watch import LOST_AFTER_S, check_leader
from gateway.server.quorum.raft_driver_metrics import RaftDriverMetrics


@pytest.mark.parametrize(
    ("behind_s", "begins_anew"), [(LOST_AFTER_S - 1, False), (LOST_AFTER_S + 1, True)]
)
def test_copy_is_complete_since_it_caught_up_unless_it_was_behind_for_long(
    behind_s: float, begins_anew: bool
) -> None:
    measures = RaftDriverMetrics()
    log = SimpleNamespace(committed=5, leader_alive=False, caught_up=False)

    def look(high_watermark: int) -> bool:
        raft = SimpleNamespace(
            leader_answered_at=trio.current_time(),
            leader_high_watermark=high_watermark,
            relays=0,
        )
        return check_leader(cast(Any, raft), cast(Any, log), measures)

    async def main() -> None:
        assert not look(6) and measures.complete_since is None
        await trio.sleep(3)
        first = trio.current_time()
        assert look(5) and measures.complete_since == first
        await trio.sleep(behind_s)
        assert not look(6) and measures.complete_since == first
        assert look(5)
        assert measures.complete_since == (trio.current_time() if begins_anew else first)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
