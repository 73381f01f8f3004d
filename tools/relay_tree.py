"""Runs gateways behind gateways: ``with relay_chain(controllers, 3) as levels:`` runs one gateway
that observes the quorum, one that observes the first, and one that observes the second.

Each keeps its ports and its directory when it is killed and started again. It knows nothing of the
quorum but the addresses of its controllers.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tools.gateway_process import Gateway, launch, wait_until_ready
from tools.process import PATIENCE_S, Process, lasting_ports


@dataclass
class Relay:
    """One gateway: an observer of ``upstream`` with a controller listener for other observers."""

    upstream: str
    directory: Path
    client_port: int
    controller_port: int
    management_port: int
    arguments: Sequence[str] = ()
    process: Process | None = field(default=None, repr=False)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    @property
    def controller_address(self) -> str:
        return f"127.0.0.1:{self.controller_port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self, timeout_s: float = PATIENCE_S) -> Gateway:
        """Start it with the state on its disk; return when it is ready. Raises ProcessError."""
        began = time.monotonic()
        output = self.directory / "output"
        if output.exists():  # the ready line of the process before must not count
            output.rename(self.directory / f"output-{time.monotonic_ns()}")
        self.process = launch(
            self.directory,
            "--source", "observer",
            "--bootstrap-controller", self.upstream,
            "--data-dir", str(self.directory / "data"),
            "--listeners", f"PLAINTEXT://{self.bootstrap},CONTROLLER://{self.controller_address}",
            "--management-listener", f"127.0.0.1:{self.management_port}",
            *self.arguments,
        )  # fmt: skip
        return wait_until_ready(self.process, timeout_s, began)

    def kill(self) -> None:
        """Kill it (``kill -9``)."""
        assert self.process is not None
        self.process.kill()
        self.process = None

    def stop(self) -> None:
        """Stop it, if it runs, by SIGTERM. Raises ProcessError if it ends with an error."""
        if self.process is not None:
            process, self.process = self.process, None
            process.stop()

    def status(self) -> dict[str, Any]:
        """The document of ``/status``."""
        url = f"http://127.0.0.1:{self.management_port}/status"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return cast(dict[str, Any], json.load(answer))


@contextlib.contextmanager
def relay_chain(controllers: str, levels: int, *arguments: str) -> Iterator[list[Relay]]:
    """Yield running gateways, of which the first observes ``controllers`` (``host:port,...``) and
    each other one the one before it; they are stopped and removed at the end of the block.

    ``arguments`` go to each ``kwire serve``. Raises ProcessError when one does not start.
    """
    scratch = Path(tempfile.mkdtemp(prefix="kwire-relays-"))
    ports = iter(lasting_ports(3 * levels))
    relays: list[Relay] = []
    upstream = controllers
    for level in range(1, levels + 1):
        directory = scratch / f"level-{level}"
        directory.mkdir()
        relay = Relay(upstream, directory, next(ports), next(ports), next(ports), arguments)
        relays.append(relay)
        upstream = relay.controller_address
    try:
        for relay in relays:
            relay.start()
        yield relays
    except BaseException:
        for relay in relays:
            if relay.process is not None:
                print(f"--- {relay.directory.name}\n{relay.process.output_end()}", file=sys.stderr)
                relay.kill()
        print(f"directories are kept in {scratch}", file=sys.stderr)
        raise
    for relay in reversed(relays):
        relay.stop()
    shutil.rmtree(scratch)
