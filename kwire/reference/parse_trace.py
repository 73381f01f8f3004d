"""Tracks the position of a parser: the path of open fields for error messages, or the whole tree.
It reads nothing.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from kwire.errors import DecodeError
from kwire.reference.primitives import Refused

T = TypeVar("T")

#: Fields, elements and counts of one tree at most: a megabyte can claim a million elements of a
#: kilobyte each in memory.
NODES_MAX: Final = 2_000_000
#: Nodes, and bytes that compressed data become, of the tree of few bytes; and for each byte.
_NODES_LEAST: Final = 100_000
_BYTES_LEAST: Final = 32 * 1024 * 1024
_PER_BYTE: Final = 20


@dataclass
class Budget:
    """Counts what one tree, or several that share it, may still take: ``nodes``, and
    ``size``, the bytes that compressed data become.
    """

    nodes: int = NODES_MAX
    size: int = _BYTES_LEAST

    @classmethod
    def for_bytes(cls, received: int) -> Budget:
        """Return the budget of the tree of ``received`` bytes, which may be compressed."""
        return cls(
            min(NODES_MAX, _NODES_LEAST + _PER_BYTE * received),
            max(_BYTES_LEAST, _PER_BYTE * received),
        )

    @property
    def spent(self) -> bool:
        """Whether more was asked for than there was."""
        return self.nodes < 0 or self.size < 0

    def take(self, nodes: int, size: int = 0) -> None:
        """Take nodes and bytes before they are made. Raises Refused when they are too many."""
        self.nodes -= nodes
        self.size -= size
        if self.spent:
            raise Refused("more fields and elements than one tree may have", "element-budget")

    def halve(self) -> None:
        """Take half of what is left, for work that failed and whose size is not known."""
        self.nodes //= 2
        self.size //= 2


@dataclass
class Node:
    """One thing in the bytes. ``start`` and ``end`` are byte positions, ``end`` not included.

    ``value`` is what was read (None where reading failed, and for null); ``type`` the schema's word
    for it; ``error`` is set on the last node, if its bytes break a rule. ``detached``: the
    positions of this node and those below it are in other bytes (decompressed ones). ``hidden``:
    the value is a secret and must not be printed.
    """

    name: str
    type: str
    start: int
    end: int = -1
    value: Any = None
    children: list[Node] = field(default_factory=list)
    error: DecodeError | None = None
    detached: bool = False
    hidden: bool = False

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """This node and all below it, in order of the bytes, each with its depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)

    def move(self, by: int) -> None:
        """Add ``by`` to every position: the bytes are a part of others, which begin ``by`` bytes
        earlier.
        """
        for _, node in self.walk():
            node.start, node.end = node.start + by, node.end + by
            if node.error is not None and node.error.offset >= 0:
                e = node.error
                node.error = DecodeError(e.reason, path=e.path, offset=e.offset + by, rule=e.rule)

    def failure(self) -> DecodeError | None:
        """The rule that was broken somewhere in this tree, or None."""
        return next((node.error for _, node in self.walk() if node.error is not None), None)


class ParseTrace:
    """The open fields, outermost first. After an exception of a parser it still names the field."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._open: list[tuple[str, int]] = []
        self._budget = Budget() if budget is None else budget

    def enter(self, name: str, type_: str, start: int) -> None:
        """A field or element of that name begins at byte ``start``. Raises Refused when the budget
        is used up.
        """
        self._open.append((name, start))
        self._budget.take(1)

    def leave(self, end: int, value: Any) -> None:
        """The innermost field ended before byte ``end``."""
        self._open.pop()

    def note(self, name: str, type_: str, stream: io.BytesIO, read: Callable[[], T]) -> T:
        """Read something that is not a field: a count, a marker, the number of a tag."""
        return read()

    @property
    def path(self) -> str:
        """Return the path of the innermost open field, such as ``Topics[3].Name``."""
        return "".join(
            name if name[0] == "[" else f".{name}" for name, _ in self._open
        ).removeprefix(".")

    def start(self, otherwise: int) -> int:
        """Where the innermost open field starts; ``otherwise`` if there is none."""
        return self._open[-1][1] if self._open else otherwise


class ParseTree(ParseTrace):
    """A trail that keeps everything: ``root`` is the tree of nodes."""

    def __init__(self, name: str, type_: str, start: int, budget: Budget | None = None) -> None:
        super().__init__(budget)
        self.root = Node(name, type_, start)
        self._nodes = [self.root]

    def enter(self, name: str, type_: str, start: int) -> None:
        super().enter(name, type_, start)
        node = Node(name, type_, start)
        self._nodes[-1].children.append(node)
        self._nodes.append(node)

    def leave(self, end: int, value: Any) -> None:
        super().leave(end, value)
        node = self._nodes.pop()
        node.end, node.value = end, value

    def note(self, name: str, type_: str, stream: io.BytesIO, read: Callable[[], T]) -> T:
        start = stream.tell()
        self._budget.take(1)
        value = read()
        self._nodes[-1].children.append(Node(name, type_, start, stream.tell(), value))
        return value

    def finish(self, end: int, value: Any, error: DecodeError | None) -> Node:
        """Close all open fields at byte ``end``; an error is set on the innermost one."""
        self._nodes[-1].error = error
        for node in self._nodes:
            node.end = end
        self.root.value = value
        return self.root
