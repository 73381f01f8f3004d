"""The logs of the bench of a broker's start."""

from __future__ import annotations

from pathlib import Path

from gateway.log.files.offset_checkpoint import RECOVERY_POINT, read_offsets
from tools.bench.starts import Logs


def test_logs_are_whole_and_have_recovery_points_at_their_ends(tmp_path: Path) -> None:
    logs = Logs(tmp_path, 3)
    logs.fill(4)
    assert read_offsets(tmp_path / RECOVERY_POINT) == {("bench", n): 4 for n in range(3)}
    before = {path: path.stat().st_size for path in tmp_path.rglob("*.log")}
    assert len(before) == 3 and min(before.values()) > 4 * 16_384
    logs.cost_of_start()
    assert {path: path.stat().st_size for path in tmp_path.rglob("*.log")} == before
