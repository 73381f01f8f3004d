"""The additions of the commands' fold to the loader: times, sentences, and a bar on a terminal."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click
import pytest

from gateway.cli import state_files
from gateway.cli.state_at import At
from gateway.cli.state_files import load_files
from gateway.cli.state_fold import Fold, Progress, State
from kwire.cluster import Image
from kwire.messages.topic_record import TopicRecord
from kwire.records import encode_metadata_record

SAMPLE = Path(__file__).resolve().parents[3] / "gateway" / "sample"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_state_has_the_time_of_its_last_record() -> None:
    fold = Fold("here", At())
    assert fold.state().time is None
    fold.take(0, 1, 5000, encode_metadata_record(TopicRecord(name="a"), 0))
    assert (fold.state().time, fold.state().image.next_offset) == ("1970-01-01T00:00:05.000Z", 1)
    fold.skip_to(2, 1, 6000)
    assert (fold.state().timestamp, fold.state().image.next_offset) == (6000, 2)
    assert State(Image()).notes == []


@pytest.mark.parametrize("value", [None, b"", b"\x07junk", b"\x01\x7f\x00"])
def test_invalid_metadata_record_is_reported_with_offset_and_remedy(
    value: bytes | None,
) -> None:
    with pytest.raises(click.ClickException, match=r"here: offset 8: .*--at 8 "):
        Fold("here", At()).take(8, 1, 0, value)


def test_a_bar_is_shown_for_much_and_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(state_files, "_PROGRESS_BYTES_MIN", 1)
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        load_files([SAMPLE], At())
        assert ("reading" in stream.getvalue()) is shown


def test_a_little_needs_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress(9, 10)
    progress.at(5)
    progress.close()
    assert terminal.getvalue() == ""
