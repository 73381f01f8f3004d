"""Which error codes stand in an answer, wherever its API puts them. Knows the generated classes,
and no API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kwire.message import Message, Struct

#: Counts the error codes other than 0 of one answer, or of a struct in it.
_Count = Callable[[Any, "Counter[int]"], None]


def count_errors(answer: Struct, found: Counter[int]) -> None:
    """Add the error codes other than 0 in ``answer``, or in a part of one, to ``found``, each as
    often as it stands there.
    """
    kind = type(answer)
    try:
        count = _COUNTERS[kind]
    except KeyError:
        count = _COUNTERS[kind] = _counter(kind)
    if count is not None:
        count(answer, found)


def errors_of(answer: Message) -> Counter[int]:
    """The error codes other than 0 in ``answer``, and how often each stands there."""
    found: Counter[int] = Counter()
    count_errors(answer, found)
    return found


_COUNTERS: Final[dict[type, _Count | None]] = {}


def _counter(kind: type[Struct]) -> _Count | None:
    """What looks through objects of ``kind`` for error codes; None if they have none anywhere.

    Made as text, like the codec: nested loops cost a third of nested calls, and every answer comes
    by here.
    """
    lines = _lines(kind, "value", "    ")
    if not lines:
        return None
    made: dict[str, Any] = {}
    exec("\n".join(["def count(value, found):", *lines]), made)
    count: _Count = made["count"]
    return count


def _lines(kind: type[Struct], name: str, indent: str) -> list[str]:
    lines = []
    for about in kind.fields():
        if about.attr == "error_code":
            lines += [
                f"{indent}if {name}.error_code:",
                f"{indent}    found[int({name}.error_code)] += 1",
            ]
        if not about.is_struct:
            continue
        below, item = f"{name}.{about.attr}", f"{name}_{about.attr}"
        inner = _lines(kind.struct_class(about.type), item, indent + "    ")
        if inner and about.array:
            lines += [f"{indent}for {item} in {below} or ():", *inner]
        elif inner:
            lines += [f"{indent}{item} = {below}", f"{indent}if {item} is not None:", *inner]
    return lines
