"""The journal: what was written is read back, what was not answered is unknown, and what cannot be
is refused.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tools.consistency_checker.history import Attempt, Outcome
from tools.consistency_checker.journal import Journal, read_journal


def test_journal_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.sent(1, 1.5, node=3)
        journal.sent(2, 1.6, node=1)
        journal.answered(1, 2.5, Outcome.ACKNOWLEDGED)
        journal.sent(3, 2.6, node=3)
        journal.answered(3, 2.7, Outcome.FAILED, "error 42")
    assert read_journal(path) == [
        Attempt(1, 1.5, Outcome.ACKNOWLEDGED, 2.5, 3),
        Attempt(2, 1.6, Outcome.UNKNOWN, None, 1),
        Attempt(3, 2.6, Outcome.FAILED, 2.7, 3, "error 42"),
    ]


def test_lines_of_many_threads_are_whole_and_appended(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for run in range(2):
        with Journal(path) as journal:

            def write(first: int, journal: Journal = journal) -> None:
                for id in range(first, first + 200):
                    journal.sent(id, float(id), node=1)

            threads = [
                threading.Thread(target=write, args=((4 * run + number) * 1000,))
                for number in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert len(read_journal(path)) == 2 * 4 * 200


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ('{"id": 1, "sent": 1, "node": 1}\n{"id": 1, "sent": 2, "node": 1}\n', "sent twice"),
        ('{"id": 1, "answered": 1, "outcome": "failed", "detail": ""}\n', "never sent"),
        ('{"id": 1, "sent"', "delimiter"),
    ],
)
def test_impossible_journal_is_refused(lines: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "journal").write_text(lines)
    with pytest.raises(ValueError, match=what):
        read_journal(tmp_path / "journal")
