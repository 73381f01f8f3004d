"""The bench reads the output of Kafka's performance tools, and makes rows of it."""

from __future__ import annotations

import pytest

from tools.bench import perf_tools
from tools.bench.data_servers import DataServer
from tools.bench.passes import PassError
from tools.bench.perf_tools import Printed, Producing, printed_in, rows
from tools.bench.report import holds

_OUTPUT = """\
Warmup first 250 records. Steady state results will print after the complete test summary.
1250 records sent, 900.5 records/sec (0.09 MB/sec), 3.10 ms avg latency, 9.00 ms max latency, \
2 ms 50th, 4 ms 95th, 8 ms 99th, 9 ms 99.9th.
1000 steady state records sent, 1000.25 records/sec (0.10 MB/sec), 1.75 ms avg latency, \
4.00 ms max latency, 1 ms 50th, 2 ms 95th, 3 ms 99th, 4 ms 99.9th.
"""


def test_closing_line_without_the_warm_up_is_read() -> None:
    assert printed_in(_OUTPUT, 1000) == Printed(1000.25, 1.75, 3)


@pytest.mark.parametrize("output", ["", _OUTPUT.replace("1000 steady", "999 steady")])
def test_run_that_did_not_send_every_record_is_no_measurement(output: str) -> None:
    with pytest.raises(PassError, match="did not send 1000"):
        printed_in(output, 1000)


def test_rows_compare_medians_of_both_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """kwire is twice as fast as its peer here, and takes half of the processor time."""
    used = {1: 0.0, 2: 0.0}

    def produce(server: DataServer, *_: object, **__: object) -> Printed:
        used[server.pid] += server.pid
        return Printed(1000 / server.pid, 2.0 * server.pid, server.pid)

    def consumer(address: str, _topic: str, _count: int) -> float:
        used[int(address)] += int(address)
        return float(address)

    monkeypatch.setattr(perf_tools, "produce", produce)
    monkeypatch.setattr(perf_tools, "java_consumer", consumer)
    monkeypatch.setattr(perf_tools, "cpu_seconds", used.__getitem__)
    for name in ("create", "delete"):
        monkeypatch.setattr(DataServer, name, lambda *_: None)
    servers = [DataServer("kwire", "1", 1), DataServer("other", "2", 2)]
    one = Producing("small", 1000, 100, 1 << 10, 1.0, 1.0)
    found = list(rows(servers, [one], rounds=1))
    assert [row["unit"] for row in found] == [
        "s CPU/GB", "times other's", "s CPU/GB", "times other's", "ms", "ms",
    ]  # fmt: skip
    assert [row["ratio"] for row in found] == [2.0] * 6
    assert all(holds(row) for row in found)
    assert found[0]["kwire"] == pytest.approx(1 / 125_000 * 1e9)
