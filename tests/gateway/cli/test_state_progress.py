"""The progress bar of commands that read much."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from gateway.cli import state_files
from gateway.cli.progress import Progress
from gateway.cli.state_files import load_files
from kwire.metadata_log.at import At

SAMPLE = Path(__file__).resolve().parents[3] / "gateway" / "sample"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
