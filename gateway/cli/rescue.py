"""Implements ``kwire rescue``: brings back a metadata quorum that lost its majority.

The decisions are ``gateway.rescue``'s; this module parses options and prints.
"""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.lines import json_line, wants_json


@click.group(
    "rescue",
    short_help="Bring back a quorum that lost its majority.",
    context_settings={"max_content_width": 120},
)
def command() -> None:
    """Bring back a metadata quorum that lost its majority, or all of it, from the copies of its log
    that are left: controllers', brokers', gateways'.
    """


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    show_default=True,
    help="Sentences for people, or JSON; auto: for people on a terminal, JSON on a pipe.",
)


@command.command(
    "inspect",
    short_help="Say which copy of the log to use, and what can be lost.",
    epilog="""\b
Examples:
  kwire rescue inspect /var/lib/kafka/metadata
  kwire rescue inspect controller1 broker4 broker5 /var/lib/kwire
  kwire rescue inspect backup/__cluster_metadata-0 backup/00000000000000001145-0000000003.checkpoint
  kwire rescue inspect controller1 broker4 | jq .verdict

Exit status: 0 where a committed record cannot be missing from the best copy, 1 where one can, or
where there is no verdict.""",
)
@click.argument(
    "places",
    metavar="DIR...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
)
@output_option
def inspect(places: tuple[Path, ...], output: str) -> None:
    """Read copies of a metadata log, and judge them: which one to use and why, whether a committed
    record can be missing from it, and what each node has to do.

    A DIR is the data directory of a controller, a broker or a gateway, a __cluster_metadata-0
    directory, or a snapshot file (.checkpoint). Give every copy that can be read: each counts for
    the proof, and for the epoch. Nothing is changed, and the nodes may run.
    """
    from gateway.cli import rescue_view as view
    from gateway.rescue.read_copy import read_copy
    from gateway.rescue.verdict import judge

    copies = [read_copy(one) for one in dict.fromkeys(places)]
    verdict = judge(copies)
    if wants_json(output):
        click.echo(json_line(view.inspect_json(copies, verdict)))
    else:
        view.print_copies(copies, verdict)
        click.echo(view.verdict_text(verdict))
    is_good = verdict.loss is not None and verdict.loss.is_excluded and not verdict.objections
    raise SystemExit(0 if is_good else 1)
