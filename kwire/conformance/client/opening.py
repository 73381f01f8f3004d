"""Opens the session of a run over a program: runs it once against a cluster that behaves, to learn
the APIs that it uses and the records that it writes.
"""

from __future__ import annotations

import time
from typing import Final

from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.client.program import Command
from kwire.conformance.client.session import ClientSession
from kwire.conformance.outcome import CheckEnd
from kwire.conformance.session import CannotConnect
from kwire.protocol import ApiKey

#: How long the first run waits for the first commit of a group, s: clients commit every 5 s.
_COMMIT_S: Final = 6.5
#: A producer is taken to be at its end if it has been silent for so long, s.
_SILENT_S: Final = 1.5


def open_client(command: Command, timeout_s: float, *, expects_records: bool) -> ClientSession:
    """Run the program once. Raises CannotConnect, with the reason, if it is silent."""
    if problem := command.problem():
        raise CannotConnect(problem)
    session = ClientSession(command, timeout_s, ClientProbe, expects_records)
    probe = ClientProbe(session)
    try:
        probe.prepare(nodes=2)
        probe.start()
        _wait(probe, timeout_s)
        probe.check_cluster()
        session.used = _used(probe)
        if not session.consumes and not session.produces:
            raise CannotConnect(f"the program neither fetches nor produces{probe.said()}")
        if session.consumes:
            probe.reads_all()
        probe.stop()
        # A consumer commits and leaves its group at its end.
        session.used = _used(probe)
        session.written = tuple(probe.state.written)
    except CheckEnd as end:
        raise CannotConnect(f"against a cluster that behaves: {end}") from None
    finally:
        probe.close()
    return session


def _wait(probe: ClientProbe, timeout_s: float) -> None:
    """Wait until the program has read the log or written its records."""
    started = time.monotonic()
    deadline = started + timeout_s
    while time.monotonic() < deadline and probe.running.status is None:
        if probe.cluster.broken is not None:
            return
        now, traffic = time.monotonic(), probe.traffic
        produced = traffic.all(ApiKey.PRODUCE)
        written = produced and now > produced[-1].at + _SILENT_S
        if probe.has_read_all() or written:
            joined = traffic.all(ApiKey.JOIN_GROUP)
            if not joined or traffic.all(ApiKey.OFFSET_COMMIT) or now > joined[-1].at + _COMMIT_S:
                return
        traffic.wait(deadline)


def _used(probe: ClientProbe) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for seen in probe.traffic.all():
        low, high = found.get(seen.api, (seen.version, seen.version))
        found[seen.api] = (min(low, seen.version), max(high, seen.version))
    return found
