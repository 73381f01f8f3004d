"""The figures and states of the page over every log of Kafka, also those that begin at a snapshot,
are those of ``kwire state``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.cli.state_files import load_files
from gateway.page.change_index import ChangeIndex
from gateway.page.snapshot_json import followed
from gateway.page.state_browser import browse
from gateway.page.state_fold import StateFold
from gateway.views import cursor as cursor_module
from gateway.views.cursor import ViewCursor
from kwire.cluster.shell_view import shell_view
from kwire.metadata_log.at import At
from tests.gateway.page.sample_log import ENCODER
from tests.gateway.page.test_change_index import counted
from tests.gateway.page.test_state_browser import whole
from tests.gateway.views.view_reading import opened, pieces, served
from tests.shared import LOG_NAMES, needs_shared

pytestmark = needs_shared

#: The large log is read in Chromium (tests/interop/test_page_sources.py).
_NAMES = tuple(name for name in LOG_NAMES if name != "p-large")


def first_directory(log: Path) -> Path:
    return sorted(log.glob("nodes/*/__cluster_metadata-0"))[0]


@pytest.mark.parametrize("name", _NAMES)
def test_counts_are_those_of_the_last_state(logs: Any, name: str) -> None:
    directory = first_directory(logs(name))
    kept = ChangeIndex(ENCODER)
    for piece in pieces(opened(directory)):
        for change in piece.changes:
            kept.add(change)
    expected = counted(load_files([directory], At()).image)
    assert {figure: kept.counts[figure] for figure in expected} == expected


@pytest.mark.parametrize("name", _NAMES)
def test_states_are_those_of_kwire_state(logs: Any, name: str) -> None:
    directory = first_directory(logs(name))
    log = opened(directory)
    first, end = log.snapshot_end, log.high_watermark
    for offset in (max(first, 1), (first + end) // 2, end - 1, end):
        fold = StateFold(log.log_start_offset, offset)
        while fold.next_offset < offset:
            fold.take(served(log, fold.next_offset))
        expected = load_files([directory], At(offset=offset)).image
        assert shell_view(fold.image) == shell_view(expected), offset
        assert whole(fold.image, []) == shell_view(expected)
        assert browse(fold.image, [])["offset"] == expected.next_offset


@pytest.mark.parametrize("name", _NAMES)
def test_the_end_is_said_when_every_change_is_there(
    logs: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor_module, "PIECE_CHANGES", 7)
    log = opened(first_directory(logs(name)))
    every = sum(len(piece.changes) for piece in pieces(log))
    cursor, kept = ViewCursor(log.log_start_offset, log.snapshot_end), ChangeIndex(ENCODER)
    count = 0
    while cursor.next_offset < log.high_watermark or not cursor.is_hungry:
        if cursor.is_hungry:
            cursor.feed(served(log, cursor.next_offset))
        for change in cursor.step().changes:
            kept.add(change)
            count += 1
        at_end = followed(cursor, kept, 0)["offset"] == log.high_watermark
        assert at_end <= (count == every)
    assert at_end
