"""Rehearses rescues on real Kafka: ``python -m tools.rescue_drill``."""

from __future__ import annotations

import json
import sys

import click

from tools import java
from tools.admin import AdminError
from tools.java import JavaError
from tools.process import ProcessError
from tools.rescue_drill.cases import CASES
from tools.rescue_drill.lag import measure
from tools.rescue_drill.report import Row, markdown

_EPILOG = """\b
Examples:
  python -m tools.rescue_drill
  python -m tools.rescue_drill --release 4.4.0 --release 3.9.2 --case survivor --case broker
  python -m tools.rescue_drill --lag 200 -o json
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--release", "releases", metavar="VERSION", multiple=True, default=[java.KAFKA_VERSION],
    show_default=True, help="A release of Kafka. Repeatable.",
)  # fmt: skip
@click.option(
    "--case", "names", type=click.Choice(list(CASES)), multiple=True,
    help="A case. Repeatable. [default: all]",
)  # fmt: skip
@click.option(
    "--lag", "writes", metavar="WRITES", type=click.IntRange(min=1),
    help="Measure how far a gateway's copy is behind after so many writes, in place of the cases.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Choice(["markdown", "json"]), default="markdown",
    show_default=True, help="The form of the table.",
)  # fmt: skip
def main(
    releases: tuple[str, ...], names: tuple[str, ...], writes: int | None, output: str
) -> None:
    """Lose the controllers of a cluster of real Kafka, bring them back with `kwire rescue`, and
    print how long each step took.

    Everything runs in a temporary directory at ports of 127.0.0.1 that the system picks, and is
    removed at the end. A case takes one to two minutes on a laptop. It needs Java 17 and Maven. The
    exit status is 1 if a cluster did not come back; its directory is kept then.
    """
    if writes is not None:
        for release in releases:
            click.echo(json.dumps({"release": release, **measure(release, writes).as_json()}))
        return
    rows = [_row(release, name) for release in releases for name in names or CASES]
    if output == "json":
        click.echo(json.dumps([one.as_json() for one in rows], indent=2))
    else:
        click.echo(markdown(rows))
    sys.exit(any(one.fault for one in rows))


def _row(release: str, name: str) -> Row:
    case = CASES[name]
    row = Row(release, name, case.title)
    try:
        with case.cluster(release) as tried:
            row.times = tried.times
            case.run(tried)
            row.records, row.restarted = len(tried.traffic.acknowledged), len(tried.restarted)
    except (AdminError, JavaError, ProcessError) as error:
        row.fault = str(error)
        click.echo(f"{release} {name}: {error}", err=True)
    else:
        click.echo(f"{release} {name}: is back", err=True)
    return row


if __name__ == "__main__":
    main()
