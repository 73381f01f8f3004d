"""The bench of many clients, small, of kwire beside itself."""

from __future__ import annotations

from pathlib import Path

from tools.bench.clients import Sizes, rows
from tools.bench.data_servers import DataServer
from tools.bench.report import holds
from tools.gateway_process import gateway

_SIZES = Sizes(
    partitions=7,
    producers=2,
    consumers=3,
    asked=3,
    batch=2048,
    record=100,
    measured_s=0.5,
    warm_up_s=0.5,
    rounds=1,
)


def test_every_record_is_consumed_and_both_rows_have_values(tmp_path: Path) -> None:
    """The measurement raises OSError if a record that was acknowledged is not consumed."""
    with gateway("--data-dir", str(tmp_path / "node")) as server:
        servers = [DataServer(name, server.bootstrap, server.pid) for name in ("kwire", "itself")]
        first, second = rows(servers, _SIZES)
    assert (first["unit"], second["unit"]) == ("s CPU/GB", "ms")
    assert holds(first) is not None
    assert min(first["kwire"], second["kwire"], second["peer_value"]) > 0
