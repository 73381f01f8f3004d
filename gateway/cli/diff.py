"""Implements ``kwire diff``: prints the changes between two states of a cluster.

A state comes from files or a server, at any offset or time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.lines import json_line, output_option, wants_json
from gateway.cli.lines import note as tell
from gateway.cli.server_options import client_security, command_config
from gateway.cli.state import path_text, value_text
from gateway.cli.state_source import load, parse_source
from kwire.printable import printable

if TYPE_CHECKING:
    from kwire.cluster.difference import Change

_DIFFERENT = 1


class _Trouble(click.ClickException):
    exit_code = 2


@click.command(
    "diff",
    short_help="Show what changed between two states.",
    epilog="""\b
Examples:
  kwire diff /var/lib/kafka/metadata@1200 /var/lib/kafka/metadata
  kwire diff metadata@2026-11-21T03:00Z metadata@2026-11-21T04:00Z | jq -r .path
  kwire diff backup/__cluster_metadata-0 localhost:9092
  kwire diff 00000000000000000985-0000000003.checkpoint 00000000000000001145-0000000003.checkpoint

Exit status: 0 where nothing changed, 1 where something did, 2 on trouble.""",
)
@click.argument("before", metavar="A", type=parse_source)
@click.argument("after", metavar="B", type=parse_source)
@command_config
@output_option("Lines for people, or JSON lines; auto: for people on a terminal, JSON on a pipe.")
@click.option(
    "--show-secrets",
    is_flag=True,
    help="Do not hide SCRAM keys and the values of sensitive configs.",
)
def command(before: Any, after: Any, config: Path | None, output: str, show_secrets: bool) -> None:
    """Compare two states of a cluster, A and B, and print what was added, removed and changed, with
    the fields before and after.

    \b
      {"change": "changed", "path": "/topics/byName/orders/0",
       "before": {"leader": 1}, "after": {"leader": 2}}

    A and B are each a __cluster_metadata-0 directory or its parent, a .log or .checkpoint file, or
    a server's HOST:PORT. With @OFFSET the state is the one before that offset, with @TIME the one
    at that time (ISO 8601, UTC unless it names a zone, or ms since 1970). A changed secret shows
    as changed, and its value is hidden.
    """
    from kwire.cluster.difference import difference

    try:
        security = client_security(config)
        states = [load(place, at, security) for place, at in (before, after)]
    except click.ClickException as error:
        raise _Trouble(error.message) from None
    for note in dict.fromkeys(note for state in states for note in state.notes):
        tell(note)
    json_wanted, same = wants_json(output), True
    for change in difference(states[0].image, states[1].image):
        same = False
        shown = change if show_secrets else change.without_secrets()
        for line in [json_line(_json(shown))] if json_wanted else text_lines(shown):
            click.echo(line)
    sys.exit(0 if same else _DIFFERENT)


def _json(change: Change) -> dict[str, Any]:
    return {
        "change": change.change,
        "path": path_text(change.place),
        "before": change.before,
        "after": change.after,
    }


def text_lines(change: Change) -> Iterator[str]:
    """Return a line for the entity and one for each field: + added, - removed, ~ changed."""
    sign, colour = {"added": ("+", "green"), "removed": ("-", "red")}.get(
        change.change, ("~", "yellow")
    )
    path = path_text(change.place)
    yield click.style(f"{sign} {printable(path)}", fg=colour, bold=True)
    before, after = change.before or {}, change.after or {}
    for name in dict.fromkeys((*before, *after)):
        old, new = (value_text(side[name]) if name in side else None for side in (before, after))
        shown = (
            f"{old} -> {new}"
            if old is not None and new is not None
            else f"{sign_of(old)} {new if old is None else old}"
        )
        yield f"    {value_text(name)}: {shown}"


def sign_of(old: str | None) -> str:
    """Return the sign of a field that only one side has."""
    return "+" if old is None else "-"
