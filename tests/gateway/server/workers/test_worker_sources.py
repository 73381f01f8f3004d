"""Workers over the sources that only read: an observed quorum, and files."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.gateway.server.guarded import log_in, place, whole_log
from tests.gateway.server.harness import connect, run
from tests.gateway.server.loopback_quorum import loopback_quorum
from tests.gateway.server.sources.test_observer_process import process
from tests.gateway.server.workers.served_workers import close, fetch, latest


def test_workers_serve_an_observed_quorum(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            loopback_quorum() as quorum,
            process(quorum, tmp_path / "data", "--workers", "2") as server,
        ):
            quorum.write(3)
            ready = await server.ready()
            assert ready["source"] == "quorum" and len(ready["workers"]) == 2
            port = int(ready["listeners"]["PLAINTEXT"].rpartition(":")[2])
            clients = [await connect(port) for _ in range(18)]
            for _ in range(5):
                quorum.write(1)
                end = await latest(clients[0])
                for client in clients:
                    assert await latest(client) >= end
                    assert (await fetch(client, end)).error_code == 0
            logs = [bytes((await fetch(client)).records) for client in clients]
            whole = max(logs, key=len)
            assert all(whole.startswith(log) for log in logs), "one may be a record behind"
            await close(clients)
            server.process.terminate()
            assert await server.ended() == 0
            assert '"event": "worker ended"' not in server.err

    run(main)


def test_workers_serve_files_over_tls_with_sasl(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path, workers=2, management_listener="127.0.0.1:0") as served:
            logs = set()
            for _ in range(12):
                client = await served.connect("BOTH")
                assert (await log_in(client)).error_code == 0
                logs.add(await whole_log(client))
                await trio.aclose_forcefully(client.stream)
            assert len(logs) == 1 and len(logs.pop()) > 10_000
            assert served.ready.workers is not None
            sums = await served.ready.workers.count()
            assert sums.events["connection accepted"] == 12
            own = served.ready.workers.node.counts.events["connection accepted"]
            assert 0 < own < 12, "each of the processes had some"

    run(main)
