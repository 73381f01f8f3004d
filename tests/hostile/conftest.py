"""Marks the tests that run alone. Runs one server for all tests of a module, in a thread of its
own, so that each test meets the state that the ones before left.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from tests.gateway.server.harness import run
from tests.hostile.counted_server import LongestPass, PassMeter
from tests.hostile.target import Target, attacked
from tests.waiting import PATIENCE_S
from tests.work import counting

#: Modules without a quorum of processes, in which one that waits for a processor would cause an
#: election. All others run alone.
_BESIDE_OTHERS: Final = (
    "test_checklist",
    "test_connections",
    "test_fuzz_server",
    "test_longest_strings",
    "test_lying_leader",
    "test_mutations",
    "test_quorum_apis",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.stem not in _BESIDE_OTHERS:
            item.add_marker("alone")
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The server of this module's tests."""
    started = threading.Event()
    box: dict[str, Any] = {}

    longest_pass = LongestPass(tmp_path_factory.mktemp("passes") / "longest")

    async def main() -> None:
        async with attacked(tmp_path_factory.mktemp("state")) as target:
            target.longest_pass = longest_pass
            box.update(target=target, token=trio.lowlevel.current_trio_token(), stop=trio.Event())
            started.set()
            await box["stop"].wait()

    def counted() -> None:
        now = itertools.count().__next__
        meter = PassMeter(longest_pass, now)
        counting(now).runcall(lambda: trio.run(main, instruments=[meter]))

    thread = threading.Thread(target=counted, daemon=True)
    thread.start()
    assert started.wait(PATIENCE_S), "the server did not start"
    yield box["target"]
    box["token"].run_sync_soon(box["stop"].set)
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the server did not stop"


@pytest.fixture
def loop() -> Callable[[Callable[[], Any]], None]:
    """Runs the attacker's coroutine."""
    return run
