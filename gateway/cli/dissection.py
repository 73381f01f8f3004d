"""Holds the result of ``kwire dissect``, passed from the reader to the printer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kwire.reference.parse_trace import Budget, Node


@dataclass(frozen=True)
class Dissection:
    """One tree to print, what it left of its ``budget``, and ``about`` it: its kind, and in a
    capture its time and addresses.
    """

    tree: Node
    data: bytes
    budget: Budget
    about: dict[str, Any] = field(default_factory=dict)
