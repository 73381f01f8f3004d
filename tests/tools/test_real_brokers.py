"""The lines of brokers' logs that count as errors."""

from __future__ import annotations

from pathlib import Path

from tools.java import KAFKA_VERSION
from tools.kafka_files import Node, Shape
from tools.real_brokers import RealBrokers

FIRST = """15:39:06.659 INFO kafka.server.BrokerServer - [BrokerServer id=101] an ERROR is told of
15:39:07.000 ERROR kafka.server.BrokerServer - [BrokerServer id=101] it fails
java.lang.IllegalStateException: why
\tat kafka.server.BrokerServer.startup(BrokerServer.scala:1)
15:39:07.001 WARN kafka.server.BrokerServer - a warning
"""
SECOND = "15:40:00.000 FATAL kafka.Kafka$ - the end\n"


def test_errors_are_reported_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "server-1.out").write_text(FIRST)
    (tmp_path / "server.out").write_text(SECOND)
    node = Node(101, ("broker",), tmp_path)
    brokers = RealBrokers(Shape(KAFKA_VERSION, 1, 0), "cluster", [node], tmp_path)
    assert brokers.errors() == [
        "101: 15:39:07.000 ERROR kafka.server.BrokerServer - [BrokerServer id=101] it fails",
        "101: java.lang.IllegalStateException: why",
        "101: \tat kafka.server.BrokerServer.startup(BrokerServer.scala:1)",
        "101: 15:40:00.000 FATAL kafka.Kafka$ - the end",
    ]


def test_reports_that_the_machine_is_busy_are_no_errors(tmp_path: Path) -> None:
    (tmp_path / "server.out").write_text(
        "23:22:00.900 ERROR a.b.EventPerformanceMonitor - [QuorumController id=1] Exceptionally"
        " slow controller event handleCommit[baseOffset=0] took 2659 ms.\n"
        "23:22:01.000 ERROR a.b.QuorumController - controller event queue overloaded.\n"
    )
    node = Node(1, ("controller",), tmp_path)
    brokers = RealBrokers(Shape(KAFKA_VERSION, 1, 0), "cluster", [node], tmp_path)
    assert brokers.errors() == []
