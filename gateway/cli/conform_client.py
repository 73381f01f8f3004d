"""Implements ``kwire conform --client``: runs a program against the rules of clients."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from kwire.conformance.outcome import Report
    from kwire.conformance.rule import Rule

DEFAULT_TIMEOUT_S: Final = 25.0
DEFAULT_WORKERS: Final = 4


def grade(
    words: Sequence[str],
    rules: Sequence[Rule],
    *,
    timeout_s: float,
    workers: int,
    allowed: Mapping[str, str],
    topic: str,
    expects_records: bool,
) -> Report:
    """Run the program once for each rule. Exits with status 2 if it cannot be tried."""
    from gateway.cli.conform_progress import progress
    from kwire.conformance.client.opening import open_client
    from kwire.conformance.client.program import Command
    from kwire.conformance.runner import Options, run_rules
    from kwire.conformance.session import CannotConnect

    if not words:
        raise click.UsageError("give the command behind --, such as -- kcat -b {bootstrap} ...")
    with _terminated_as_interrupted():
        try:
            session = open_client(Command(words, topic), timeout_s, expects_records=expects_records)
        except CannotConnect as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(2)
        with progress(len(rules)) as told:
            report = run_rules(session, rules, Options(workers, allowed=allowed), told)
    options = " --expect-records" if expects_records else ""
    if topic != Command.topic:
        options += f" --topic {shlex.quote(topic)}"
    report.command = f"kwire conform --client{options}"
    report.command_end = f" -- {shlex.join(words)}"
    return report


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Within the block SIGTERM does what Ctrl-C does, so that no program outlives the command."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
