"""A connection to a node, cancelled at every step: everything is closed, and nothing hangs."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl

import pytest
import trio
import trio.testing

from gateway.security.client_properties import ClientSecurity
from tests.gateway.server.node_client.test_connection_tls import security as tls_security
from tests.gateway.server.node_client.test_connection_tls import server
from tests.gateway.server.node_client.test_sasl import ScramNode, guarded, security
from tests.gateway.server.upstream_peer import Peer, Script, heartbeat, listening, polite, run
from tests.waiting import PATIENCE_S

STEPS_MAX = 300

WAYS: dict[str, tuple[Script, ClientSecurity, ssl.SSLContext | None]] = {
    "plaintext": (polite, ClientSecurity(), None),
    "tls": (polite, tls_security(), server()),
    "sasl": (guarded(lambda: ScramNode("SCRAM-SHA-256")), security("SCRAM-SHA-256"), None),
}


class CancelAt(trio.abc.Instrument):
    """Cancels ``scope`` when ``task`` is about to make its step number ``step``."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, step: int) -> None:
        self.left = step
        self._task = task
        self._scope = scope

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self.left -= 1
            if self.left == 0:
                self._scope.cancel()


async def cancelled_at(step: int, peer: Peer, how: ClientSecurity) -> bool:
    """Connect, send a request and close, cancelled at that step; False if it had ended before."""
    with trio.CancelScope() as scope:
        instrument = CancelAt(trio.lowlevel.current_task(), scope, step)
        trio.lowlevel.add_instrument(instrument)
        try:
            upstream = await peer.connect(how)
            try:
                await upstream.call(heartbeat(), 4, timeout_s=5)
            finally:
                await upstream.aclose()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return scope.cancelled_caught or instrument.left <= 0


def connected_to(port: int) -> list[int]:
    """This process's descriptors of connections to that port. Other threads open and close some."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as one:
            if one.family == socket.AF_INET and one.getpeername()[1] == port:
                found.append(int(name))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_cancellation_at_every_step_closes_the_connection(way: str) -> None:
    script, how, context = WAYS[way]

    async def main() -> None:
        async with listening(script, context) as peer:
            for step in range(1, STEPS_MAX):
                if not await cancelled_at(step, peer, how):
                    break
                with trio.fail_after(PATIENCE_S):
                    await peer.idle.wait()
            else:
                pytest.fail(f"not over after {STEPS_MAX} steps")
            assert step > 5
            # Nothing was left open on our side either.
            await trio.testing.wait_all_tasks_blocked()
            assert not connected_to(peer.port)

    run(main)
