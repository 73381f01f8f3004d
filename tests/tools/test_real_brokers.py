"""The errors in the logs of Kafka's nodes."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from tools.real_brokers import logged_errors


class _Node(NamedTuple):
    node_id: int
    lines: tuple[str, ...]

    def output(self) -> str:
        return "\n".join(self.lines)


def test_errors_have_the_lines_below_them_and_leave_out_that_the_machine_is_busy() -> None:
    node = _Node(
        7,
        (
            "23:22:00.899 INFO kafka.server - started",
            "23:22:00.900 ERROR a.b.EventPerformanceMonitor - [QuorumController id=1]"
            " Exceptionally slow controller event handleCommit[baseOffset=0] took 2659 ms.",
            "23:22:01.000 ERROR a.b.QuorumController - controller event queue overloaded.",
            "23:22:02.000 ERROR a.b.Partition - failed",
            "java.io.IOException: no",
            "23:22:03.000 WARN a.b.Partition - slow",
        ),
    )
    assert logged_errors([cast(Any, node)]) == [
        "7: 23:22:02.000 ERROR a.b.Partition - failed",
        "7: java.io.IOException: no",
    ]
