"""Formats decoded records as lines: JSON for programs, columns for people. The commands that print
records share it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from kwire.printable import json_text, printable

_Command = TypeVar("_Command", bound=Callable[..., Any])


def output_option(about: str) -> Callable[[_Command], _Command]:
    """Return the option ``-o``: text, JSON, or by default what :func:`wants_json` decides.
    ``about`` is its help.
    """
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["auto", "text", "json"]),
        default="auto",
        show_default=True,
        help=about,
    )


def wants_json(output: str) -> bool:
    """``-o auto`` is JSON on a pipe and text on a terminal."""
    return output == "json" or (output == "auto" and not sys.stdout.isatty())


def json_line(line: dict[str, Any]) -> str:
    """Return one JSON object as a line."""
    return json_text(line)


def text_line(line: dict[str, Any]) -> str:
    """Return offset, time (UTC), record type and version, and fields as a line."""
    head = f"{line['offset']:>8}  {moment(line['timestamp'])}  "
    if "error" in line:
        return head + not_decoded(line["error"])
    name = f"{line['type']} v{line['version']}" if "type" in line else f"control {line['control']}"
    return f"{head}{click.style(name, bold=True)}  {json_text(line['data'])}"


def not_decoded(reason: str) -> str:
    """Return the text in place of a record that cannot be decoded."""
    return click.style(f"cannot be decoded: {printable(reason)}", fg="red")


def note(sentence: str) -> None:
    """Print a sentence on standard error."""
    click.echo("\n".join(map(printable, sentence.split("\n"))), err=True)


def moment(timestamp: int) -> str:
    """Return a record's timestamp (ms since the epoch) in UTC; the number itself if no calendar has
    the date.
    """
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return f"{timestamp} ms"
