"""Writes a change of the metadata log as a row of the page's timeline, and as JSON in full.

A row is short, because the page holds all rows: ``[offset, number, time, kind, op, name, ...]``.
``offset`` and ``number`` are the two parts of the change's offset in the view topics, ``time`` is
in ms since 1970, ``kind`` the position in ``KIND_NAMES``. A partition's row goes on with the leader
before and after, the ISR before and after, and the replicas; a broker's with its state before and
after. The last member of a row says what changed; that of a partition only where leader and ISR do
not. In full a change is the value of ``__cluster_metadata.changes``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from gateway.ports.view_topics import CHANGES
from gateway.views.encode import ViewEncoder
from gateway.views.fold import Change
from kwire.cluster import view_offsets as offsets
from kwire.cluster.entities import KINDS
from kwire.cluster.entities.security import acl_fields
from kwire.cluster.entities.settings import config_name
from kwire.cluster.kind import Kind, State

#: Kinds in the order of their numbers in rows.
KIND_NAMES: Final = tuple(kind.kind for kind in KINDS)
_NUMBERS: Final = {kind.kind: number for number, kind in enumerate(KINDS)}
#: States of a broker in a row.
ABSENT, FENCED, ACTIVE, SHUTTING_DOWN = range(4)
#: Characters of the text of a row that says what changed, and of one value in it.
_TEXT_MAX: Final = 160
_VALUE_MAX: Final = 60
_NUMBER_MASK: Final = (1 << offsets.INDEX_BITS) - 1
_json: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def row_of(change: Change) -> bytes:
    """Return the row of ``change`` as JSON in ASCII, without a line end."""
    kind, before, after = change.kind, change.before, change.after
    row = [
        offsets.log_offset(change.offset),
        change.offset & _NUMBER_MASK,
        change.timestamp,
        _NUMBERS[kind.kind],
        change.op,
        title(kind, before if after is None else after),
    ]
    if kind.kind == "partition":
        row += _partition(before, after)
        if before is None or after is None or row[6] != row[7] or row[8] != row[9]:
            return _json(row).encode("ascii")
    elif kind.kind == "broker":
        row += [broker_state(before), broker_state(after)]
    row.append(what_changed(kind, before, after))
    return _json(row).encode("ascii")


def offset_text(offset: int) -> str:
    """Return an offset of the view topics in the two parts of a row, ``12.0``; empty below 0. The
    numbers of the page's script have 53 bits.
    """
    return "" if offset < 0 else f"{offsets.log_offset(offset)}.{offset & _NUMBER_MASK}"


def parse_offset(text: str) -> int:
    """Return the offset of :func:`offset_text`. Raises ValueError."""
    offset, _, number = text.partition(".")
    return offsets.at(int(offset)) + int(number or "0")


def line_of(change: Change, encoder: ViewEncoder) -> bytes:
    """Return ``change`` in full, as JSON in ASCII without a line end. Secrets are redacted."""
    return encoder.record(CHANGES, change).value or b""


def title(kind: Kind, state: State) -> str:
    """Return the name of an entity as the timeline shows it."""
    match kind.kind:
        case "partition":
            topic, partition = state
            return f"{topic}-{partition.partition_id}"
        case "broker" | "controller":
            return f"{kind.kind} {kind.name(state)[0]}"
        case "config":
            return config_name(state[0], state[1])
        case "acl":
            acl = acl_fields(state)
            return (
                f"{acl['principal']} {acl['permissionType']} {acl['operation']}"
                f" {acl['resourceType']}:{acl['resourceName']}"
            )
        case "producer_ids":
            return "producer ids"
        case _:
            return " ".join(map(str, kind.name(state)))


def what_changed(kind: Kind, before: State | None, after: State | None) -> str:
    """Return the fields that differ as text, ``retention.ms 1000 → 2000``; of an entity that is
    new, its fields. Secrets are redacted.
    """
    if after is None:
        return ""
    was, now = ({} if state is None else kind.fields(state) for state in (before, after))
    was, now = (
        {name: value for name, value in one.items() if name not in (*kind.key_fields, "id")}
        for one in (was, now)
    )
    text = ", ".join(_differences(was, now, is_new=before is None))
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}\u2026"


def _differences(was: dict[str, Any], now: dict[str, Any], *, is_new: bool) -> Iterator[str]:
    for name in {**was, **now}:
        old, new = was.get(name), now.get(name)
        if old == new:
            continue
        if isinstance(new, dict) and isinstance(old, dict | None):
            yield from _differences(old or {}, new, is_new=is_new or old is None)
        elif not is_new:
            yield f"{name} {_short(old)} \u2192 {_short(new)}"
        elif new not in ([], False, ""):
            yield f"{name} {_short(new)}"


def _short(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else _json(value)
    return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 1]}\u2026"


def broker_state(broker: Any) -> int:
    """Return the state of a broker's registration; ``ABSENT`` for None."""
    if broker is None:
        return ABSENT
    if broker.fenced:
        return FENCED
    return SHUTTING_DOWN if broker.in_controlled_shutdown else ACTIVE


def is_leaderless(state: State | None) -> bool:
    """Whether a partition exists and has no leader."""
    return state is not None and state[1].leader < 0


def is_under_replicated(state: State | None) -> bool:
    """Whether a partition exists and its ISR lacks a replica."""
    return state is not None and len(state[1].isr) < len(state[1].replicas)


def _partition(before: State | None, after: State | None) -> list[Any]:
    was, now = (None if state is None else state[1] for state in (before, after))
    known = now or was
    return [
        None if was is None else was.leader,
        None if now is None else now.leader,
        None if was is None else list(was.isr),
        None if now is None else list(now.isr),
        [] if known is None else list(known.replicas),
    ]
