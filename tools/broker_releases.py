"""Runs brokers of several Kafka releases, each under a kwire controller at that release's level:
``python -m tools.broker_releases``.

For each release a controller is formatted with the newest metadata.version of that release, two
brokers start, and Kafka's tools create a topic, produce to it, read it, add partitions and delete
it. It prints a row for each release for docs/brokers.md. It needs Java and Maven, and takes about
half a minute for each release.
"""

from __future__ import annotations

import subprocess
import sys
import time

import click

from tools import java
from tools.java import JavaError
from tools.own_quorum import own_quorum
from tools.process import ProcessError
from tools.real_brokers import SESSIONS, RealBrokers, real_brokers

#: (release of the brokers, metadata.version of the cluster).
RELEASES = (
    ("4.4.0", "4.4"),
    ("4.3.1", "4.3"),
    ("4.2.2", "4.2"),
    ("4.1.2", "4.1"),
    ("4.0.2", "4.0"),
)
_TOPIC = "orders"
_RECORDS = 1000
#: A broker logs this as an error for each partition that is added to a topic, whichever controller
#: it has.
_ADDED = "to exist, but it was missing. Creating..."


@click.command(epilog="Example: python -m tools.broker_releases 4.4.0 4.0.2")
@click.argument("releases", nargs=-1)
def main(releases: tuple[str, ...]) -> None:
    """Try the brokers of RELEASES, by default all supported ones; exit with 1 if one of them
    fails.
    """
    known = dict(RELEASES)
    unknown = set(releases) - known.keys()
    if unknown:
        raise click.UsageError(
            f"no release {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    failed = False
    for version, level in RELEASES:
        if releases and version not in releases:
            continue
        began = time.monotonic()
        try:
            attempt(version, level)
            result = "serves"
        except (JavaError, ProcessError, AssertionError) as error:
            failed, result = True, f"FAILED: {error}"
        click.echo(f"| {version} | {level} | {result} | {time.monotonic() - began:.0f} s |")
    sys.exit(failed)


def attempt(version: str, level: str) -> None:
    """Try two brokers of ``version`` under a controller at ``level``. Raises JavaError,
    ProcessError, AssertionError.
    """
    settings = {"broker.session.timeout.ms": SESSIONS["broker.session.timeout.ms"]}
    with (
        own_quorum(1, formatted=True, release=level, properties=settings) as own,
        real_brokers(own, 2, version=version, properties=SESSIONS) as brokers,
    ):
        brokers.tool(
            java.TOPICS,
            ["--create", "--topic", _TOPIC, "--partitions", "3", "--replication-factor", "2"],
        )
        produce(brokers)
        arguments = [
            "--topic",
            _TOPIC,
            "--from-beginning",
            "--max-messages",
            str(_RECORDS),
            "--timeout-ms",
            "20000",
        ]
        read = brokers.tool(java.CONSOLE_CONSUMER, arguments).split()
        assert sorted(map(int, read)) == list(range(_RECORDS)), (
            f"{len(read)} of {_RECORDS} records were read"
        )
        brokers.tool(java.TOPICS, ["--alter", "--topic", _TOPIC, "--partitions", "6"])
        assert "PartitionCount: 6" in brokers.tool(java.TOPICS, ["--describe", "--topic", _TOPIC])
        brokers.tool(java.TOPICS, ["--delete", "--topic", _TOPIC])
        assert _TOPIC not in brokers.tool(java.TOPICS, ["--list"]).split()
        problems = [line for line in brokers.errors() if _ADDED not in line]
        assert not problems, "\n".join(problems)


def produce(brokers: RealBrokers) -> None:
    """Write the numbers from 0 on to the topic, one in each record. Raises JavaError."""
    line = java.command(
        java.CONSOLE_PRODUCER,
        ["--bootstrap-server", brokers.bootstrap, "--topic", _TOPIC],
        version=brokers.version,
    )
    text = "".join(f"{number}\n" for number in range(_RECORDS))
    done = subprocess.run(line, input=text, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise JavaError(
            f"{java.CONSOLE_PRODUCER} ended with {done.returncode}:\n{done.stderr[-2000:]}"
        )


if __name__ == "__main__":
    main()
