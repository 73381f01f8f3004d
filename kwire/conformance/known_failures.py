"""Reads a list of rules that are known to fail: a line for each, with the id and a reason."""

from __future__ import annotations

from collections.abc import Collection


def read_known_failures(text: str, rule_ids: Collection[str]) -> dict[str, str]:
    """Return reasons by rule id. ``#`` begins a comment. Raises ValueError with the line's number
    for an id that is not one of ``rule_ids``, and for a line without a reason.
    """
    known = {}
    for number, line in enumerate(text.splitlines(), 1):
        rule_id, _, reason = line.partition("#")[0].strip().partition(" ")
        if not rule_id:
            continue
        if rule_id not in rule_ids:
            raise ValueError(f"line {number}: there is no rule {rule_id}")
        if not reason.strip():
            raise ValueError(f"line {number}: {rule_id} has no reason")
        known[rule_id] = reason.strip()
    return known
