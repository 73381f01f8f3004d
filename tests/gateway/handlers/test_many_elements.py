"""Every array of every request may have thousands of elements: no step handles all of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from gateway.handlers.context import Handler
from gateway.handlers.table import handlers
from gateway.ports.streamed import Streamed, stream_long
from kwire.message import Message
from kwire.uuid import Uuid
from tests.gateway.handlers.group_world import GroupWorld
from tests.gateway.handlers.test_slices import COUNT, steps
from tests.gateway.steps import calls_per_step

#: Calls in one step: counting the elements or encoding strings makes up to five for each.
CALLS_MAX = 2_500 + 6 * COUNT
#: Values of the fields of an element, by its number.
VALUES: dict[str, Callable[[int], Any]] = {
    "string": lambda number: f"t{number}",
    "uuid": lambda number: Uuid(number.to_bytes(16, "big")),
    "bool": lambda number: False,
    "int8": lambda number: number % 100,
    "int16": lambda number: number % 100,
    "bytes": lambda number: b"",
    "records": lambda number: None,
    "float64": float,
}


def arrays(cls: Any, version: int) -> Iterator[tuple[str, ...]]:
    """The path of each array of a message or struct."""
    for info in cls.fields():
        if not info.at(version):
            continue
        if info.array:
            yield (info.attr,)
        if info.is_struct:
            inner = cls.struct_class(info.type)
            yield from ((info.attr, *path) for path in arrays(inner, version))


def filled(
    cls: Any, version: int, path: tuple[str, ...], number: int = 0, count: int = COUNT
) -> Any:
    """A message or struct with ``count`` elements in the array at ``path``, one in others."""
    values = {}
    for info in cls.fields():
        if not info.at(version) or info.tag is not None:
            continue
        is_on = path[:1] == (info.attr,)
        below = path[1:] if is_on else ()
        length = count if is_on and not below else 1

        def made(number: int, info: Any = info, below: tuple[str, ...] = below) -> Any:
            if info.is_struct:
                return filled(cls.struct_class(info.type), version, below, number, count)
            return VALUES.get(info.type, int)(number)

        values[info.attr] = [made(one) for one in range(length)] if info.array else made(number)
    return cls(**values)


CASES = [
    pytest.param(handler, path, id=f"{handler.name}-{'.'.join(path)}")
    for handler in handlers().values()
    for path in arrays(handler.request_type(handler.versions[-1]), handler.versions[-1])
]


@pytest.mark.parametrize(("handler", "path"), CASES)
def test_array_of_a_request_with_many_elements_is_handled_in_steps(
    handler: Handler, path: tuple[str, ...]
) -> None:
    version = handler.versions[-1]
    world = GroupWorld()
    world.groups.submit = lambda event, pending: None

    def handle(request: Any) -> Generator[Any, Any, Any]:
        answer: Any = handler.handle(request, world.context(version))
        yield
        if isinstance(answer, Generator):
            answer = yield from answer
            yield
        if isinstance(answer, Message):
            answer = stream_long(answer)
            if isinstance(answer, Message):
                answer.encode(version)
        if isinstance(answer, Streamed):
            yield from steps(answer)

    cls = handler.request_type(version)
    calls_per_step(handle(filled(cls, version, path, count=1)))  # imports
    _, calls = calls_per_step(handle(filled(cls, version, path)))
    assert calls <= CALLS_MAX
