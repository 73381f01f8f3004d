"""Counts the error codes of a response, wherever its API puts them.

It reads the schemas of the generated classes, and knows no API. Every response passes here, so the
structs of one array are looked at together, in a few calls, rather than in a call for each.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from kwire.message import Message, Struct

#: Adds the error codes in structs of one class to a counter.
_Count: TypeAlias = Callable[[Sequence[Any], "Counter[int]"], None]
#: A field whose structs have error codes: its value, whether that is an array, and its structs.
_Field: TypeAlias = tuple[Callable[[Any], Any], bool, _Count]


def count_errors(answer: Struct, found: Counter[int]) -> None:
    """Add the error codes other than 0 in ``answer``, a response or a struct in one, to ``found``,
    each as often as it occurs.
    """
    count = _counter(type(answer))
    if count is not None:
        count((answer,), found)


def errors_of(answer: Message) -> Counter[int]:
    """Return the error codes other than 0 in ``answer``, and how often each occurs."""
    found: Counter[int] = Counter()
    count_errors(answer, found)
    return found


@functools.cache
def _counter(kind: type[Struct]) -> _Count | None:
    """Make the function for structs of ``kind``; None if neither they nor their fields have error
    codes.
    """
    fields = kind.fields()
    inner: list[_Field] = []
    for one in fields:
        count = _counter(kind.struct_class(one.type)) if one.is_struct else None
        if count is not None:
            inner.append((attrgetter(one.attr), one.array, count))
    if any(one.attr == "error_code" for one in fields):
        return _own_and_inner(_inner_counter(inner)) if inner else _count_own
    return _inner_counter(inner) if inner else None


def _count_own(structs: Sequence[Any], found: Counter[int]) -> None:
    for struct in structs:
        if struct.error_code:
            found[int(struct.error_code)] += 1


def _own_and_inner(inner: _Count) -> _Count:
    def count(structs: Sequence[Any], found: Counter[int]) -> None:
        for struct in structs:
            if struct.error_code:
                found[int(struct.error_code)] += 1
        inner(structs, found)

    return count


def _inner_counter(fields: Sequence[_Field]) -> _Count:
    counters = [
        (_array_counter if is_array else _field_counter)(read, inner)
        for read, is_array, inner in fields
    ]
    if len(counters) == 1:
        return counters[0]

    def count(structs: Sequence[Any], found: Counter[int]) -> None:
        for one in counters:
            one(structs, found)

    return count


def _array_counter(read: Callable[[Any], Any], inner: _Count) -> _Count:
    def count(structs: Sequence[Any], found: Counter[int]) -> None:
        if len(structs) == 1:  # most often: one topic, one partition
            values = read(structs[0])
        else:
            values = [one for value in map(read, structs) if value for one in value]
        if values:
            inner(values, found)

    return count


def _field_counter(read: Callable[[Any], Any], inner: _Count) -> _Count:
    def count(structs: Sequence[Any], found: Counter[int]) -> None:
        values = [value for value in map(read, structs) if value is not None]
        if values:
            inner(values, found)

    return count
