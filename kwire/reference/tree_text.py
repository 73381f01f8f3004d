"""Writes trees of dissected bytes as lines of text: byte range, first bytes, name, type, value.

It knows nothing of Kafka and of terminals: a caller passes the styles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kwire.printable import json_text, printable
from kwire.reference.parse_trace import Node
from kwire.uuid import Uuid

#: Limits of a line of text: bytes of a value, its characters, its elements.
_HEX_BYTES: Final = 8
_TEXT_CHARACTERS: Final = 100
_ELEMENTS: Final = 12
#: Columns of the byte range and the first bytes.
_PLACE: Final = 13 + 1 + 3 * _HEX_BYTES + 2

#: Decorates a text. The second argument is ``branch``, ``leaf``, ``dim`` or ``error``.
Style = Callable[[str, str], str]


def plain_style(text: str, role: str) -> str:
    """Return ``text`` as it is."""
    return text


@dataclass(frozen=True)
class TreeText:
    """Writes trees with ``style``. ``redacted`` stands in place of hidden values."""

    style: Style = plain_style
    redacted: str = "(hidden)"

    def lines(self, node: Node, data: bytes, depth: int = 0, own: bool = True) -> Iterator[str]:
        """Return the lines of a node. ``own``: the positions of the node are positions in
        ``data``.
        """
        if node.detached:
            own = False
            about = "(decompressed: positions below are within these bytes)"
            yield " " * _PLACE + "  " * depth + self.style(about, "dim")
        short = _short_array(node)
        leaf = not node.children or short
        name = self.style(node.name, "leaf" if leaf else "branch")
        kind = self.style(f" {node.type}", "dim") if node.type else ""
        text = f"{_place(node, data, leaf and own)}{'  ' * depth}{name}{kind}"
        if leaf and node.error is None:
            text += f" = {self._elements(node) if short else self._value(node)}"
        yield text
        if not short:
            for child in node.children:
                yield from self.lines(child, data, depth + 1, own)
        if node.error is not None:
            yield (
                " " * _PLACE + "  " * depth + self.style(f"! {printable(str(node.error))}", "error")
            )

    def _elements(self, node: Node) -> str:
        items = [child for child in node.children if child.name.startswith("[")]
        if node.value is None:
            return "null"
        more = f", ... {len(items) - _ELEMENTS} more" if len(items) > _ELEMENTS else ""
        return f"[{', '.join(self._value(item) for item in items[:_ELEMENTS])}{more}]"

    def _value(self, node: Node) -> str:
        if node.hidden:
            return self.redacted
        if isinstance(node.value, bytes) and not isinstance(node.value, Uuid):
            size = f"{len(node.value)} byte{'s' * (len(node.value) != 1)}"
            short = 0 < len(node.value) <= 2 * _HEX_BYTES
            return f"{size}: {node.value.hex(' ')}" if short else size
        text = json_text(plain_value(node.value))
        if len(text) <= _TEXT_CHARACTERS:
            return text
        return f"{text[:_TEXT_CHARACTERS]}... ({len(text)} characters)"


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
    """Return whether a node is an array of plain values, which fits one line."""
    return node.type.startswith("[]") and all(
        not child.children and child.error is None for child in node.children
    )


def plain_value(value: Any) -> Any:
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
