"""Prints trees of ``kwire dissect``, as text and as JSON lines. It knows nothing of Kafka."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from kwire.records.redact import REDACTED
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from gateway.cli.dissection import Dissection
    from kwire.reference.trail import Node

#: Limits of a line of text: bytes of a value, its characters, its elements.
_HEX_BYTES: Final = 8
_TEXT_CHARACTERS: Final = 100
_ELEMENTS: Final = 12


def tree_text(found: Dissection) -> str:
    """Return the whole tree as text: a line for each node, below one that describes the frame."""
    lines = [_headline(found)] if found.about else []
    lines += _lines(found.tree, found.data, 0)
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
    return json.dumps({**about, "ok": found.tree.failure() is None, "tree": _node_json(found.tree)})


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


def _lines(node: Node, data: bytes, depth: int, own: bool = True) -> Iterator[str]:
    """Return the lines of a node. ``own``: its byte range is one of ``data``."""
    if node.detached:
        own = False
        yield (
            " " * _PLACE
            + "  " * depth
            + click.style("(decompressed: positions below are within these bytes)", dim=True)
        )
    short = _short_array(node)
    leaf = not node.children or short
    name = click.style(node.name, fg="cyan", bold=not leaf)
    kind = click.style(f" {node.type}", dim=True) if node.type else ""
    text = f"{_place(node, data, leaf and own)}{'  ' * depth}{name}{kind}"
    if leaf and node.error is None:
        text += f" = {_elements(node) if short else _value(node)}"
    yield text
    if not short:
        for child in node.children:
            yield from _lines(child, data, depth + 1, own)
    if node.error is not None:
        yield " " * _PLACE + "  " * depth + click.style(f"! {node.error}", fg="red")


_PLACE: Final = 13 + 1 + 3 * _HEX_BYTES + 2


def _place(node: Node, data: bytes, with_bytes: bool) -> str:
    """Return the byte range and, of a leaf, its first bytes."""
    if node.start < 0:
        return " " * _PLACE
    shown = ""
    if with_bytes and not node.hidden:
        shown = data[node.start : min(node.end, node.start + _HEX_BYTES)].hex(" ")
        shown += ".." if node.end - node.start > _HEX_BYTES else ""
    return f"{node.start:>6}-{node.end:<6} {shown:<{_PLACE - 14}}"


def _short_array(node: Node) -> bool:
    """Return an array of plain values that fits one line; None for another."""
    return node.type.startswith("[]") and all(
        not child.children and child.error is None for child in node.children
    )


def _elements(node: Node) -> str:
    items = [child for child in node.children if child.name.startswith("[")]
    if node.value is None:
        return "null"
    more = f", ... {len(items) - _ELEMENTS} more" if len(items) > _ELEMENTS else ""
    return f"[{', '.join(_value(item) for item in items[:_ELEMENTS])}{more}]"


def _value(node: Node) -> str:
    if node.hidden:
        return REDACTED
    if isinstance(node.value, bytes) and not isinstance(node.value, Uuid):
        size = f"{len(node.value)} byte{'s' * (len(node.value) != 1)}"
        return f"{size}: {node.value.hex(' ')}" if 0 < len(node.value) <= 2 * _HEX_BYTES else size
    text = json.dumps(_plain(node.value), ensure_ascii=False)
    # Escape control characters, which a terminal would execute.
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return (
        text
        if len(text) <= _TEXT_CHARACTERS
        else f"{text[:_TEXT_CHARACTERS]}... ({len(text)} characters)"
    )


def _node_json(node: Node) -> dict[str, Any]:
    line: dict[str, Any] = {"name": node.name, "type": node.type}
    if node.start >= 0:
        line |= {"start": node.start, "end": node.end}
    if node.children:
        line["children"] = [_node_json(child) for child in node.children]
        if node.value is None and {child.type for child in node.children} <= {"length", "marker"}:
            line["value"] = None  # a null array or struct has only a length or marker
    elif node.error is None:
        line["value"] = REDACTED if node.hidden else _plain(node.value)
    if node.error is not None:
        e = node.error
        line["error"] = {"reason": e.reason, "rule": e.rule, "path": e.path, "offset": e.offset}
    return line


def _plain(value: Any) -> Any:
    """Return a leaf's value for JSON: uuids as Kafka prints them, bytes in hex, non-finite numbers
    by Java's names.
    """
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
