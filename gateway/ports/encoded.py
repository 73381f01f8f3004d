"""Defines elements of an array that are encoded already, and a short response that has some.

Encoded elements are kept and sent again (``gateway.handlers.topic_index``). They know neither the
message nor the version that they were encoded for: the module that keeps them does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gateway.ports.answer_errors import count_errors

if TYPE_CHECKING:
    from kwire.message import Struct

NO_ERRORS: Final[Mapping[int, int]] = MappingProxyType({})


class Encoded:
    """``count`` elements of an array, encoded one after another, with the error codes in them.

    ``holders`` counts the responses that are being sent with these bytes: several may share them.
    """

    __slots__ = ("count", "data", "errors", "holders")

    def __init__(self, data: bytes, count: int, errors: Mapping[int, int] = NO_ERRORS) -> None:
        self.data = data
        self.count = count
        self.errors = errors
        self.holders = 0


class PartlyEncoded:
    """The response ``message`` whose array ``attr`` has ``elements``, structs and encoded ones, and
    which is short enough to be encoded in one step.
    """

    __slots__ = ("_attr", "_elements", "message")

    def __init__(self, message: Struct, attr: str, elements: Sequence[Struct | Encoded]) -> None:
        self.message: Any = message
        self._attr = attr
        self._elements = elements

    def encode_parts(self, version: int) -> list[Any]:
        """As ``Message.encode_parts``."""
        parts: list[Any] = []
        setattr(self.message, self._attr, _MixedArray(self._elements, parts))
        self.message.encode_parts(version, parts)
        return parts

    def count_errors(self, found: Counter[int]) -> None:
        """Add the error codes in the response, each as often as it occurs."""
        setattr(self.message, self._attr, [])
        count_errors(self.message, found)
        for element in self._elements:
            if isinstance(element, Encoded):
                found.update(element.errors)
            else:
                count_errors(element, found)


class _MixedArray:
    """An array that mixes structs with encoded elements. A generated encoder takes its length and
    iterates over it; the iteration adds the encoded bytes to the encoder's ``parts``.
    """

    __slots__ = ("_count", "_elements", "_parts")

    def __init__(self, elements: Sequence[Struct | Encoded], parts: list[Any]) -> None:
        self._elements = elements
        self._parts = parts
        self._count = sum(one.count if isinstance(one, Encoded) else 1 for one in elements)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Struct]:
        for one in self._elements:
            if isinstance(one, Encoded):
                self._parts.append(one.data)
            else:
                yield one
