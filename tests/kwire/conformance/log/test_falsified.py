"""Each falsified copy of a log is told, with the file, the position and the rule."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from kwire.conformance.log.check import check_log
from kwire.conformance.log.rules import FAMILY
from tests.kwire.conformance.log import (  # noqa: F401  they define the kinds
    falsified_batches,
    falsified_files,
    falsified_records,
    falsified_snapshots,
)
from tests.kwire.conformance.log.falsification import KINDS, SAMPLE, Kind
from tests.kwire.conformance.log.log_copy import LogCopy
from tests.shared import needs_shared, unpack_log

_SAMPLE = Path(__file__).resolve().parents[4] / "gateway" / "sample"
_PARTITION = "__cluster_metadata-0"
#: Copies that have to be told, of all kinds and logs.
_LEAST = 200
_CASES = [
    pytest.param(
        kind, log, number, id=f"{kind.name}, {log}, {number}",
        marks=() if log == SAMPLE else needs_shared,
    )
    for kind in KINDS
    for log in kind.logs
    for number in range(kind.times)
]  # fmt: skip


class Originals:
    """The logs that are copied, each unpacked once and without files that no rule is about."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._logs: dict[str, LogCopy] = {}

    def log(self, name: str) -> LogCopy:
        if name not in self._logs:
            archive, _, node = name.partition("/")
            log = _SAMPLE
            if name != SAMPLE:
                log = unpack_log(archive, self._directory) / "nodes" / node
            self._logs[name] = LogCopy(log / _PARTITION)
        return self._logs[name]

    def copy(self, name: str, to: Path) -> LogCopy:
        unused = shutil.ignore_patterns("*.timeindex", "*.snapshot", "*.deleted")
        shutil.copytree(self.log(name).directory.parent, to, ignore=unused)
        return LogCopy(to / _PARTITION)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Originals:
    return Originals(tmp_path_factory.mktemp("originals"))


@pytest.mark.parametrize(("kind", "name", "number"), _CASES)
def test_a_falsified_copy_is_told(
    originals: Originals, kind: Kind, name: str, number: int, tmp_path: Path
) -> None:
    place = kind.chosen(originals.log(name), name)[number]
    copy = originals.copy(name, tmp_path / "copy")
    file, position = kind.falsify(copy, place)
    where = file if position < 0 else f"{file} at {position}"
    told = {
        (result.rule.id, result.outcome, result.sentence.partition(": ")[0])
        for result in check_log(copy.directory).results
    }
    assert (kind.rule_id, kind.outcome, where) in told


def test_every_rule_has_a_falsified_copy() -> None:
    assert {kind.rule_id for kind in KINDS} == {rule.id for rule in FAMILY}


def test_the_copies_are_many_and_of_all_logs() -> None:
    copies = Counter(case.values[1] for case in _CASES)
    assert copies.total() >= _LEAST
    assert min(copies.values()) >= 3
