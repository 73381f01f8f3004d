"""Shows a tree of dissected bytes as JSON, with hidden values redacted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwire.records.redact import REDACTED
from kwire.reference.tree_text import plain_value

if TYPE_CHECKING:
    from kwire.reference.parse_trace import Node


def node_json(node: Node) -> dict[str, Any]:
    """Return name, type, byte range, value, children and error of ``node``, those that it has."""
    line: dict[str, Any] = {"name": node.name, "type": node.type}
    if node.start >= 0:
        line |= {"start": node.start, "end": node.end}
    if node.children:
        line["children"] = [node_json(child) for child in node.children]
        if node.value is None and {child.type for child in node.children} <= {"length", "marker"}:
            line["value"] = None  # a null array or struct has only a length or marker
    elif node.error is None:
        line["value"] = REDACTED if node.hidden else plain_value(node.value)
    if node.error is not None:
        e = node.error
        line["error"] = {"reason": e.reason, "rule": e.rule, "path": e.path, "offset": e.offset}
    return line
