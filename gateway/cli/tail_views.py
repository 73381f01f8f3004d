"""Implements ``kwire tail`` of a view topic: one entity, or one change, in each record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.lines import moment, not_decoded
from kwire.cluster.view_records import COMPLETE_HEADER, SNAPSHOT_HEADER

if TYPE_CHECKING:
    from gateway.cli.topic_reader import Fetched

#: Signs of ``kwire diff`` for the operations of ``changes``.
_SIGNS = {"c": "+", "r": "=", "u": "~", "d": "-"}


def describe(record: Fetched) -> dict[str, Any]:
    """Return the JSON object of a record. Connect's schemas are left out."""
    line: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if record.headers:
        line["headers"] = {
            name: None if value is None else value.decode("utf-8", "replace")
            for name, value in record.headers
        }
    try:
        return line | {"key": _payload(record.key), "value": _payload(record.value)}
    except ValueError as error:
        return line | {"error": f"no JSON: {error}"}


def _payload(text: bytes | None) -> Any:
    found = None if text is None else json.loads(text)
    if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
        return found["payload"]
    return found


def text_line(line: dict[str, Any]) -> str:
    """Return time (UTC), key and value as a line; a tombstone has a minus sign in front. The end of
    a snapshot is a sentence.
    """
    head = f"{moment(line['timestamp'])}  "
    if "error" in line:
        return head + not_decoded(line["error"])
    headers, value = line.get("headers", {}), line["value"]
    if COMPLETE_HEADER in headers:
        return f"{head}= snapshot {json.dumps(headers.get(SNAPSHOT_HEADER))} is complete"
    is_change = isinstance(value, dict) and "op" in value
    sign = _SIGNS.get(value["op"], "?") if is_change else "-" if value is None else "+"
    shown = {side: value[side] for side in ("before", "after")} if is_change else value
    # JSON in ASCII: a terminal executes no character that a client chose.
    text = "" if shown is None else f"  {json.dumps(shown)}"
    return f"{head}{sign} {click.style(json.dumps(line['key']), bold=True)}{text}"
