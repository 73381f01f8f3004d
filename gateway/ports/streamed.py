"""Defines a response whose elements are built one by one, because it is too large for one step.

A handler whose work grows with the cluster or with the request returns a :class:`Streamed`
response. The server takes elements from it in short slices, encodes them, and runs other tasks in
between. The handler knows neither the clock nor the event loop. A small response is returned whole,
which takes less time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.ports.encoded import Encoded
    from kwire.message import Message, Struct

_S = TypeVar("_S", bound="Struct")
#: A handler works on, or answers with, at most so many elements (partitions, configuration keys,
#: group members) in one step: 1 to 2 ms.
WHOLE_MAX: Final = 500
#: A response that is complete is encoded in one step up to so many structs of its longest array:
#: each may hold some ten more, as a created topic does with its configs.
_ENCODED_WHOLE_MAX: Final = 200


class Streamed:
    """``message``, or a struct in one, whose array ``attr`` gets the structs that ``elements``
    yields.

    ``elements`` yields structs of the array, elements that are encoded already, :class:`Streamed`
    structs whose own array is long, and None where it made no element but may be interrupted. It
    reads the image of the cluster lazily. The image changes between two slices, so everything that
    must be consistent is taken from it first.

    ``share_key``: concurrent requests with an equal key share one response; None shares nothing.
    ``size_limit``: the server sets ``is_full`` once so many bytes are encoded, and ``elements``
    must answer the rest with an error. ``version`` is the one to encode at where it is not the
    request's, and ``wrap(parts, errors, version)`` puts the encoded parts, with the error codes in
    them, into another response of the request's ``version``: an Envelope.
    """

    __slots__ = (
        "attr",
        "elements",
        "is_full",
        "message",
        "share_key",
        "size_limit",
        "version",
        "wrap",
    )

    def __init__(
        self,
        message: Struct,
        attr: str,
        elements: Iterable[Struct | Encoded | Streamed | None] = (),
        *,
        share_key: Hashable = None,
        size_limit: int | None = None,
    ) -> None:
        self.message: Any = message
        self.attr = attr
        self.elements: Iterator[Struct | Encoded | Streamed | None] = iter(elements)
        self.share_key = share_key
        self.size_limit = size_limit
        self.is_full = False
        self.version: int | None = None
        self.wrap: Callable[[list[bytes], Container[int], int], list[Any]] | None = None

    def whole(self) -> Any:
        """Return the message with all its elements, none of which is encoded already, built in one
        step.
        """
        setattr(self.message, self.attr, _whole(self.elements))
        return self.message


def filled(struct: _S, attr: str, elements: Iterable[Struct]) -> _S | Streamed:
    """Return ``struct`` with ``elements`` in its array ``attr``; streamed if they are many."""
    rest = iter(elements)
    taken = list(islice(rest, WHOLE_MAX))
    if len(taken) == WHOLE_MAX:
        return Streamed(struct, attr, chain(taken, rest))
    setattr(struct, attr, taken)
    return struct


def stream_long(message: Message) -> Message | Streamed:
    """``message``, streamed where an array of structs is long, its own or that of a struct in it:
    encoding is sliced.
    """
    return _streamed(message)  # type: ignore[return-value]


def _streamed(struct: Struct) -> Struct | Streamed:
    """Return ``struct``, streamed where one of its arrays or of those in its structs is long."""
    # Every response that is not streamed comes through here, so structs without arrays of structs
    # are not looked at.
    attrs, nesting = _struct_arrays(struct.__class__)
    longest, size = "", _ENCODED_WHOLE_MAX
    for attr in attrs:
        length = len(getattr(struct, attr) or ())
        if length > size:
            longest, size = attr, length
    if longest:
        elements = getattr(struct, longest)
        return Streamed(
            struct, longest, map(_streamed, elements) if longest in nesting else elements
        )
    for attr in nesting:
        for one in getattr(struct, attr) or ():
            if _streamed(one) is not one:
                return Streamed(struct, attr, map(_streamed, getattr(struct, attr)))
    return struct


@functools.cache
def _struct_arrays(cls: type[Struct]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the arrays of structs, and of those whose structs have such arrays."""
    fields = [field for field in cls.fields() if field.array and field.is_struct]
    nesting = [field for field in fields if _struct_arrays(cls.struct_class(field.type))[0]]
    return tuple(field.attr for field in fields), tuple(field.attr for field in nesting)


def respond(
    message: Message,
    attr: str,
    elements: Iterable[Struct | Encoded | Streamed | None],
    size: int,
    *,
    share_key: Hashable = None,
) -> Message | Streamed:
    """Return ``message`` with ``elements``: whole if ``size``, their maximum number, allows it,
    else streamed.
    """
    if size > WHOLE_MAX:
        return Streamed(message, attr, elements, share_key=share_key)
    setattr(message, attr, _whole(elements))
    return message


def _whole(elements: Iterable[Struct | Encoded | Streamed | None]) -> list[Any]:
    return [
        one.whole() if one.__class__ is Streamed else one for one in elements if one is not None
    ]


def limited(
    message: Message,
    attr: str,
    asked: Iterable[Any],
    make: Callable[[Any], Struct | Streamed | None],
    refuse: Callable[[Any, ErrorCode, str], Struct],
    limit: int,
) -> Streamed:
    """Return ``message`` with ``make(one)`` for each ``one`` of ``asked``, and beyond ``limit``
    bytes (``response.max.bytes``) an error that names the remedy.
    """
    streamed = Streamed(message, attr, size_limit=limit)
    why = f"The response has reached response.max.bytes ({limit}): ask for fewer at a time."

    def elements() -> Iterator[Struct | Encoded | Streamed | None]:
        for one in asked:
            yield refuse(one, ErrorCode.INVALID_REQUEST, why) if streamed.is_full else make(one)

    streamed.elements = elements()
    return streamed
