"""The queue of a core's events, on a clock that the test moves."""

from __future__ import annotations

import time

import pytest

from gateway.base.slices import SLICE_S
from gateway.quorum.events import Tick
from gateway.server.quorum.raft_event_queue import RaftEventQueue


def test_long_events_are_taken_for_the_time_of_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    queue = RaftEventQueue()
    events = [Tick() for _ in range(5)]
    for event in events:
        queue.add(event)
    taken = []
    for taken_event in queue.take():
        taken.append(taken_event)
        now += 0.6 * SLICE_S
    assert taken == events[:2]
    assert list(queue.take()) == events[2:], "short events are all taken, the older ones first"
