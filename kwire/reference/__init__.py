"""Decodes messages slowly and independently: Kafka's message schemas as `construct` declarations.

It shares no code with the generated messages, so that each can be checked against the other, and it
can say where in the bytes every value stands:

    from kwire.reference import reference
    fetch = reference("FetchRequest", 12)
    value = fetch.parse(data)          # dicts by the schema's names, lists, ints, str, bytes, None
    fetch.build(value) == data
    fetch.dissect(data)                  # a tree of nodes with byte ranges
"""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping
from typing import Any

from construct import ConstructError

from kwire.errors import DecodeError, EncodeError, UnsupportedVersion
from kwire.reference.declare import declare, span
from kwire.reference.facts import KAFKA, facts
from kwire.reference.parse_trace import Budget, Node, ParseTrace, ParseTree
from kwire.reference.primitives import Refused
from kwire.reference.structs import UNKNOWN_TAGS

__all__ = [
    "UNKNOWN_TAGS",
    "Budget",
    "Node",
    "ParseTree",
    "Reference",
    "reference",
    "valid_versions",
]


@functools.cache
def reference(name: str, version: int, family: str = KAFKA) -> Reference:
    """Return the codec of one message at one version. ``family`` is a directory of schemas, such as
    ``kip/595``.

    Raises UnknownApi for a name that is not there, UnsupportedVersion for a version outside of its
    valid ones.
    """
    return Reference(facts(name, family), version)


def valid_versions(schema: Mapping[str, Any]) -> range:
    """The versions that a schema can be read and written at; empty where they were all removed."""
    return span(schema["validVersions"])


class Reference:
    """One message at one version. ``name``, ``version``, ``schema`` (the facts), ``declaration``
    (the construct).
    """

    def __init__(self, schema: Mapping[str, Any], version: int) -> None:
        valid = valid_versions(schema)
        if version not in valid:
            known = f"{valid[0]} to {valid[-1]}" if valid else "none any more"
            raise UnsupportedVersion(
                f"{schema['name']} has no version {version}: there are {known}"
            )
        self.schema, self.name, self.version = schema, schema["name"], version
        self.declaration = declare(schema, version)

    def parse(self, data: bytes, allow_trailing: bool = False) -> dict[str, Any]:
        """Read a whole message. Raises DecodeError, for bytes left over too unless
        ``allow_trailing``.

        A message of more than ``NODES_MAX`` fields and elements is refused as well (rule
        ``element-budget``).
        """
        value, end = self.parse_from(data)
        if end < len(data) and not allow_trailing:
            raise _left_over(data, end)
        return value

    def parse_from(self, data: bytes, at: int = 0) -> tuple[dict[str, Any], int]:
        """Read a message that starts at byte ``at``: the value and the position after it. Raises
        DecodeError.
        """
        return self._read(data, at, ParseTrace())

    def build(self, value: Mapping[str, Any]) -> bytes:
        """Return the bytes of a value. Missing fields get their defaults. Raises EncodeError, which
        names the field.
        """
        trail = ParseTrace()
        try:
            built: bytes = self.declaration.build(value, trail=trail)
        except Refused as error:
            raise EncodeError(error.reason, path=trail.path) from None
        except (ConstructError, TypeError, ValueError) as error:
            raise EncodeError(f"cannot be written: {error}", path=trail.path) from None
        return built

    def dissect(
        self,
        data: bytes,
        at: int = 0,
        allow_trailing: bool = False,
        budget: Budget | None = None,
    ) -> Node:
        """Return the tree of a message that starts at byte ``at``. Invalid bytes do not raise:
        their node has ``error``. It ends likewise where ``budget`` does.
        """
        tree = ParseTree(self.name, f"version {self.version}", at, budget)
        try:
            value, end = self._read(data, at, tree)
        except DecodeError as error:
            return tree.finish(len(data), None, error)
        if end < len(data) and not allow_trailing:
            root = tree.finish(end, value, None)
            rest = Node(
                "left over", "bytes", end, len(data), data[end:], error=_left_over(data, end)
            )
            root.children.append(rest)
            return root
        return tree.finish(end, value, None)

    def _read(self, data: bytes, at: int, trail: ParseTrace) -> tuple[dict[str, Any], int]:
        stream = io.BytesIO(data)
        stream.seek(at)
        try:
            value: dict[str, Any] = self.declaration.parse_stream(stream, trail=trail)
        except Refused as error:
            raise DecodeError(
                error.reason, path=trail.path, offset=trail.start(at), rule=error.rule
            ) from None
        except ConstructError as error:
            raise DecodeError(
                str(error), path=trail.path, offset=trail.start(at), rule="construct"
            ) from None
        return value, stream.tell()


def _left_over(data: bytes, end: int) -> DecodeError:
    return DecodeError(
        f"{len(data) - end} bytes are left over after the message",
        offset=end,
        rule="trailing-bytes",
    )
