"""Refused requests of every API and version leave nothing behind: no reference cycle, and no
object.

``python -m tools.refused_requests`` sends hundreds of thousands of them and measures the memory of
the process.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.handlers.context import Context
from kwire.message import Struct
from tests.gateway.server.harness import run
from tests.gateway.server.own_nodes import CLUSTER_ID, OwnNode, lone_node
from tools.fuzz_server.frames import FrameSource
from tools.fuzz_server.run import TABLES
from tools.fuzz_server.values import Known
from tools.refused_requests import refused, repeat

#: Requests of each API.
COUNT = 200
LISTENERS = {"broker": "PLAINTEXT", "controller": "CONTROLLER"}
#: Objects of requests, or of the work on them.
KEPT = (Struct, Context, BaseException)


def held() -> Counter[str]:
    """Objects of requests that are alive, by type."""
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, KEPT))


async def settled() -> None:
    """Let the server see that connections were closed."""
    await trio.testing.wait_all_tasks_blocked(0.01)


async def added(port: int, frames: Any) -> Counter[str]:
    """Return the objects of requests that ``COUNT`` requests or more add, by type."""
    before = held()
    await repeat(port, frames, math.ceil(COUNT / len(frames)) * len(frames))
    await settled()
    return held() - before


async def left_behind(port: int, frames: Any) -> tuple[Counter[str], Counter[str]]:
    """Return the objects that only the collector can release after ``COUNT`` requests or more, and
    the objects of requests that they added, by type.
    """
    # Whole rounds: a connection that is not closed yet has its last request, each time the same.
    await repeat(port, frames, len(frames))
    await settled()
    gc.collect()
    # Objects that only one of two turns adds came from work of the node, such as its registration.
    grown = await added(port, frames)
    if grown:
        grown &= await added(port, frames)
    gc.set_debug(gc.DEBUG_SAVEALL)  # what is found goes to gc.garbage
    gc.collect()
    gc.set_debug(0)
    found = Counter(type(one).__name__ for one in gc.garbage)
    gc.garbage.clear()
    return found, grown


async def check(node: OwnNode, listener: str) -> dict[str, Any]:
    table = TABLES[listener]()
    known = Known(CLUSTER_ID, node.raft.epoch)
    source = FrameSource(1, listener, table, known)
    port, kept = node.ports[LISTENERS[listener]], {}
    for handler in table.values():
        frames = await refused(port, source, handler, variants=3)
        if not frames:
            continue
        gc.collect()
        gc.disable()
        try:
            found, grown = await left_behind(port, frames)
        finally:
            gc.enable()
        if found or grown.total() >= COUNT // 10:
            kept[handler.name] = found, grown
    return kept


@pytest.mark.parametrize("listener", TABLES)
def test_refused_requests_of_every_api_leave_no_cycle_and_no_object(
    listener: str, tmp_path: Path
) -> None:
    async def main() -> None:
        options = {"cluster_id": CLUSTER_ID, "group_initial_rebalance_delay_ms": 0}
        async with lone_node(tmp_path, **options) as node:
            assert await check(node, listener) == {}

    run(main)
