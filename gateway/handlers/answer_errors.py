"""Counts the error codes of a response, wherever its API puts them.

It reads the schemas of the generated classes, and knows no API. Every response passes here, so the
structs of one array are looked at together, in a few calls, rather than in a call for each.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from kwire.message import Message, Struct

_ERROR_CODE: Final = attrgetter("error_code")


class _Codes(NamedTuple):
    """The error codes in structs of one class: in the struct itself, and in its fields."""

    own: bool
    inner: tuple[_Field, ...]


class _Field(NamedTuple):
    """A field whose structs have error codes; ``read`` gives its value."""

    read: Callable[[Any], Any]
    is_array: bool
    codes: _Codes


def count_errors(answer: Struct, found: Counter[int]) -> None:
    """Add the error codes other than 0 in ``answer``, a response or a struct in one, to ``found``,
    each as often as it occurs.
    """
    codes = _codes_in(type(answer))
    if codes.inner:
        _count((answer,), codes, found)
    elif codes.own and answer.error_code:  # type: ignore[attr-defined]
        found[int(answer.error_code)] += 1  # type: ignore[attr-defined]


def errors_of(answer: Message) -> Counter[int]:
    """Return the error codes other than 0 in ``answer``, and how often each occurs."""
    found: Counter[int] = Counter()
    count_errors(answer, found)
    return found


@functools.cache
def _codes_in(kind: type[Struct]) -> _Codes:
    fields = kind.fields()
    inner = (
        _Field(attrgetter(one.attr), one.array, _codes_in(kind.struct_class(one.type)))
        for one in fields
        if one.is_struct
    )
    return _Codes(
        any(one.attr == "error_code" for one in fields),
        tuple(one for one in inner if one.codes.own or one.codes.inner),
    )


def _count(structs: Sequence[Any], codes: _Codes, found: Counter[int]) -> None:
    """Count the error codes in ``structs``, which are all of the class that ``codes`` is of."""
    own, fields = codes
    # Most responses have no error, which ``any`` sees without a step of the interpreter for each.
    if own and any(map(_ERROR_CODE, structs)):
        for struct in structs:
            if struct.error_code:
                found[int(struct.error_code)] += 1
    for read, is_array, inner in fields:
        values: Sequence[Any]
        if len(structs) == 1:  # most often: one topic, one partition
            value = read(structs[0])
            values = (value or ()) if is_array else () if value is None else (value,)
        elif is_array:
            values = [one for value in map(read, structs) if value for one in value]
        else:
            values = [value for value in map(read, structs) if value is not None]
        if values:
            _count(values, inner, found)
