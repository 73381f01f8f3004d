"""Implements ``kwire rescue``: brings back a metadata quorum that lost its majority.

The decisions are ``gateway.rescue``'s; this module parses options and prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.address import parse_seconds
from gateway.cli.lines import json_line, note, output_option, wants_json
from gateway.cli.server_options import client_security, command_config

if TYPE_CHECKING:
    from gateway.cli.rescue_write import Job, NewVoter


@click.group(
    "rescue",
    short_help="Bring back a quorum that lost its majority.",
    context_settings={"max_content_width": 120},
)
def command() -> None:
    """Bring back a metadata quorum that lost its majority, or all of it, from the copies of its log
    that are left: controllers', brokers', gateways'.
    """


_output = output_option(
    "Sentences for people, or JSON; auto: for people on a terminal, JSON on a pipe."
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
@_output
def inspect(places: tuple[Path, ...], output: str) -> None:
    """Read copies of a metadata log, and judge them: which one to use and why, whether a committed
    record can be missing from it, and what each node has to do.

    A DIR is the data directory of a controller, a broker or a gateway, a __cluster_metadata-0
    directory, or a snapshot file (.checkpoint). Give every copy that can be read: each counts for
    the proof, and for the epoch. Nothing is changed, and the nodes may run.
    """
    from gateway.cli.rescue_json import inspect_json
    from gateway.cli.rescue_view import print_copies, verdict_text
    from gateway.rescue.read_copy import read_copy
    from gateway.rescue.verdict import judge

    copies = [read_copy(one) for one in dict.fromkeys(places)]
    verdict = judge(copies)
    if wants_json(output):
        click.echo(json_line(inspect_json(copies, verdict)))
    else:
        print_copies(copies, verdict)
        click.echo(verdict_text(verdict))
    is_good = verdict.loss is not None and verdict.loss.is_excluded and not verdict.objections
    raise SystemExit(0 if is_good else 1)


def parse_voter(text: str) -> NewVoter:
    """Parse ``ID@HOST:PORT[:DIRECTORY_ID]`` (``DynamicVoters.parse``). Raises BadParameter."""
    from gateway.base.address import parse_address
    from gateway.cli.format_values import split_voter
    from gateway.cli.rescue_write import NewVoter
    from kwire.uuid import Uuid

    try:
        id, rest = split_voter(text, "ID@HOST:PORT[:DIRECTORY_ID]")
        place, _, directory = rest.rpartition(":")
        # A port has up to five digits, and a directory id 22 characters.
        if len(directory) == 22 and not directory.isdigit():
            return NewVoter(id, parse_address(place), Uuid.parse(directory))
        return NewVoter(id, parse_address(rest), None)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _parse_voters(texts: tuple[str, ...]) -> tuple[NewVoter, ...]:
    voters = tuple(map(parse_voter, texts))
    if len({one.id for one in voters}) < len(voters):
        raise click.BadParameter("a voter is there twice")
    return voters


@command.command(
    "write",
    short_help="Write the directory of a controller that leads again.",
    epilog="""\b
Examples:
  kwire rescue write --from controller3 --to controller3 --voter 3@ctl3:9093 \\
      --copy broker4 --copy broker5 --accept-loss
  kwire rescue write --from broker4 --to /var/lib/kafka/metadata --voter 1@ctl1:9093 \\
      --copy broker5 --accept-loss --yes
  kwire rescue write --from c1 --to c1 --to c2 --to c3 \\
      --voter 1@new1:9093 --voter 2@new2:9093 --voter 3@new3:9093 --yes

Exit status: 1 where the rescue is refused, or failed.""",
)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="DIR",
    type=click.Path(exists=True, path_type=Path),
    help="The copy to go on with: the best one that `kwire rescue inspect` names.",
)
@click.option(
    "--to",
    "targets",
    required=True,
    multiple=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help=(
        "The data directory of the controller to write: one that is formatted, --from itself, or a"
        " new one. Repeatable, one for each voter."
    ),
)
@click.option(
    "--voter",
    "voters",
    required=True,
    multiple=True,
    metavar="ID@HOST:PORT[:DIRECTORY_ID]",
    callback=lambda _, __, all: _parse_voters(all),
    help="A voter of the new quorum. The directory id is that of its --to. Repeatable.",
)
@click.option(
    "--copy",
    "others",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, path_type=Path),
    help="A further copy at hand: it counts for the epoch, and for the proof. Repeatable.",
)
@click.option(
    "--listener",
    metavar="NAME",
    help="The controllers' listener. [default: that of the voters in the log, else CONTROLLER]",
)
@click.option(
    "--epoch",
    type=click.IntRange(min=1),
    metavar="N",
    help="The epoch to go on in. [default: the highest that a copy has seen, plus 1000]",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Write although the loss of committed records cannot be excluded.",
)
@click.option(
    "--snapshot",
    is_flag=True,
    help="Write a snapshot of the state in place of the log: a damaged one, or to drop records.",
)
@click.option(
    "--drop-controllers",
    is_flag=True,
    help="With --snapshot: without the registrations of controllers that are no voters any more.",
)
@click.option(
    "--cut-at",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="With --snapshot: without the records from this offset on.",
)
@click.option("--yes", is_flag=True, help="Write. Without it the command says what it would do.")
@click.option(
    "--no-ask", is_flag=True, help="Do not ask the controllers whether there is a leader."
)
@command_config
@_output
def write(
    source: Path,
    targets: tuple[Path, ...],
    voters: tuple[NewVoter, ...],
    others: tuple[Path, ...],
    listener: str | None,
    epoch: int | None,
    accept_loss: bool,
    snapshot: bool,
    drop_controllers: bool,
    cut_at: int | None,
    yes: bool,
    no_ask: bool,
    config: Path | None,
    output: str,
) -> None:
    """Write the log of a copy, and behind it one record with the new voters in a higher epoch, into
    the directory of a controller. The controller elects itself when it starts, and all brokers
    follow it by themselves.

    No byte of the copy's log is changed. Without --yes nothing is written. The old state of a
    directory is copied beside it first; a journal with the hashes of all files is written beside
    it, too. A second run of the same command completes what was interrupted, or does nothing.
    """
    from gateway.cli.rescue_write import Asked, complete_interrupted, job_json, prepare, run

    if not snapshot and (drop_controllers or cut_at is not None):
        raise click.UsageError("--drop-controllers and --cut-at need --snapshot")
    if yes:
        for one in complete_interrupted(targets):
            note(f"{one}: completed a rescue that was interrupted")
    security = None if no_ask else client_security(config)
    job = prepare(
        Asked(
            source,
            targets,
            voters,
            others,
            listener,
            epoch,
            accept_loss,
            snapshot,
            drop_controllers,
            cut_at,
            security,
        )
    )
    if yes and job.plan is not None:
        run(job)
    is_written = yes and job.plan is not None
    if wants_json(output):
        click.echo(json_line(job_json(job, written=is_written)))
    else:
        _say(job, is_written)
    raise SystemExit(1 if job.refusals else 0)


def _say(job: Job, is_written: bool) -> None:
    from gateway.cli.rescue_view import job_lines, printable_lines

    click.echo(printable_lines(list(job_lines(job, is_written))))


@command.command(
    "check",
    short_help="Try rescued directories without starting a node.",
    epilog="""\b
Examples:
  kwire rescue check /var/lib/kafka/metadata
  kwire rescue check controller3 --from broker4
  kwire rescue check c1 c2 c3 --from broker4
  kwire rescue check controller3 --with-kafka /opt/kafka

Exit status: 1 where no node would lead, or the state differs.""",
)
@click.argument(
    "directories",
    metavar="DIR...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option(
    "--from",
    "source",
    metavar="DIR",
    type=click.Path(exists=True, path_type=Path),
    help="The copy that they were made from. [default: DIR itself]",
)
@click.option(
    "--with-kafka",
    "kafka",
    metavar="HOME",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The directory of a Kafka release, whose controller is started on a copy, too.",
)
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    type=parse_seconds,
    help="How long Kafka may take to lead.",
)
@_output
def check(
    directories: tuple[Path, ...],
    source: Path | None,
    kafka: Path | None,
    timeout: float,
    output: str,
) -> None:
    """Open copies of the rescued directories as the voters of kwire's own quorum do, let them elect
    a leader in virtual time, and compare the state of the cluster with that of the source.

    Give the directory of each voter that was written. None is changed: do it before the controllers
    start.
    """
    if kafka is not None and len(directories) > 1:
        raise click.UsageError("--with-kafka starts one controller: give the DIR of the only voter")
    from gateway.cli import rescue_check as checking
    from gateway.cli.rescue_view import printable_lines

    checked = checking.check(directories, source, kafka, timeout)
    if wants_json(output):
        click.echo(json_line(checking.check_json(checked)))
    else:
        click.echo(printable_lines(list(checking.check_lines(checked))))
    raise SystemExit(1 if checked.faults or checked.changes else 0)
