"""Interoperability tests carry one marker, and say at the end what every client read."""

from __future__ import annotations

from pathlib import Path

import pytest

#: (log, way, records, sha256), for the table at the end of the run.
READ: list[tuple[str, str, int, str]] = []
#: Figures that a test wants told, whether it passes or not.
SAID: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if READ:
        terminalreporter.section("what the clients read (SHA-256 over offsets, timestamps, keys and values)")
        for log, way, count, sha256 in READ:
            terminalreporter.write_line(f"{log:<24} {way:<22} {count:>7} records  {sha256}")
    if SAID:
        terminalreporter.section("figures")
        for line in SAID:
            terminalreporter.write_line(line)
