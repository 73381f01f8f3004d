"""Prints trees of ``kwire dissect``, as text and as JSON lines. It knows nothing of Kafka."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from kwire.dissect.node_json import node_json
from kwire.records.redact import REDACTED
from kwire.reference.tree_text import TreeText

if TYPE_CHECKING:
    from gateway.cli.dissection import Dissection

_STYLES: Final[dict[str, dict[str, Any]]] = {
    "branch": {"fg": "cyan", "bold": True},
    "leaf": {"fg": "cyan", "bold": False},
    "dim": {"dim": True},
    "error": {"fg": "red"},
}


def tree_text(found: Dissection) -> str:
    """Return the whole tree as text: a line for each node, below one that describes the frame."""
    lines = [_headline(found)] if found.about else []
    lines += TreeText(_style, REDACTED).lines(found.tree, found.data)
    return "\n".join(lines) + "\n"


def json_line(found: Dissection, show_secrets: bool) -> str:
    """Return one JSON object: the description of the frame, its bytes in hex (with secrets), and
    the tree.
    """
    about = dict(found.about)
    if "time" in about:
        about["time"] = _time(about["time"])
    if show_secrets:
        about["hex"] = found.data.hex()
    return json.dumps({**about, "ok": found.tree.failure() is None, "tree": node_json(found.tree)})


def _headline(found: Dissection) -> str:
    about = found.about
    text = f"{_time(about['time'])}  {about['source']} -> {about['target']}  {about['kind']}"
    if about["correlation_id"] >= 0 or about["api"] != "?":
        text += f" {about['api']} v{about['version']}, correlation id {about['correlation_id']}"
    return click.style(text, bold=True)


def _time(seconds: float) -> str:
    try:
        return (
            datetime.fromtimestamp(seconds, UTC)
            .isoformat(timespec="microseconds")
            .replace("+00:00", "Z")
        )
    except (ValueError, OverflowError, OSError):  # a capture can have any time
        return f"{seconds} s"


def _style(text: str, role: str) -> str:
    return click.style(text, **_STYLES[role])
