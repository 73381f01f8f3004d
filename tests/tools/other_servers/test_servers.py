"""Tests of the lines that a server of another make prints: its address, and why it ended."""

from __future__ import annotations

from tools.other_servers.servers import address_in, reason_in


def test_the_address_is_a_whole_line() -> None:
    assert address_in("127.0.0.1:90") == ""
    assert address_in("a warning\n127.0.0.1:9092\n") == "127.0.0.1:9092"


def test_a_panic_is_the_reason() -> None:
    output = "127.0.0.1:9092\npanic: runtime error: nil\n\ngoroutine 1 [running]:\n"
    assert reason_in(output) == "panic: runtime error: nil"
    assert reason_in("127.0.0.1:9092\n") == ""
