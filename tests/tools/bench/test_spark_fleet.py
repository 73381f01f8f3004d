"""The logs of the fleet's bench, and its rows. Its measurements run at a small size beside the
tests of the fleet's tables (``tests/interop/spark_fleet.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kwire.metadata_log.read import image
from tools.bench.report import holds
from tools.bench.spark_fleet import ChangingLog, rows


def test_log_has_its_partitions_and_each_change_one_more_epoch(tmp_path: Path) -> None:
    log = ChangingLog(tmp_path / "log", 250)
    before = image(log.directory)
    assert [len(one) for one in before.partitions.values()] == [100, 100, 50]
    ChangingLog(log.directory, 250, log.end).change(40)
    after = image(log.directory)
    epochs = [one.partition_epoch for some in after.partitions.values() for one in some.values()]
    assert (epochs.count(1), epochs.count(0)) == (40, 210)
    assert after.next_offset == before.next_offset + 40


def test_bars_are_the_gain_of_a_core_and_the_growth_with_the_partitions(tmp_path: Path) -> None:
    asked: list[tuple[str, int, int]] = []

    def drive(what: str, cores: int, given: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append((what, cores, len(given.get("servers", ()))))
        own = dict.fromkeys(("start", "start_cpu", "nothing", "nothing_cpu"), 1.0)
        cpu = given.get("partitions", 0) ** 0.5
        own |= {"compacting": 0.1, "compacted_mib": 2.0}
        return {**own, "wall": 3.0 / cores, "cpu": cpu, "records": 60, "mib": 0.5}

    found = list(rows(tmp_path, {"iceberg": drive, "delta": drive}, divisor=10_000))
    assert asked == [("first_round", 1, 20), ("first_round", 2, 20)] + [("changes", 2, 0)] * 4
    assert [holds(row) for row in found] == [None, True, None, False, None, False]
    assert found[1]["ratio"] == 2.0 and "3.16 times" in found[3]["notes"]
    assert [row["what"].partition(":")[0] for row in found[2:]] == ["delta"] * 2 + ["iceberg"] * 2
