"""Builds changes of a broker's responses, wherever error codes and values stand in them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from kwire.frame import frame
from kwire.header import peek
from kwire.message import Struct
from tests.conformance_faults.changes import Change
from tests.conformance_faults.proxy import Fault


def structs(value: Struct) -> Iterator[Any]:
    """The message and every struct in it."""
    yield value
    for field in value.fields():
        one = getattr(value, field.attr)
        if field.is_struct and one is not None:
            for part in one if field.array else [one]:
                yield from structs(part)


def no_error(*codes: int) -> Change:
    """Errors with these codes are not told."""

    def change(answer: Any, request: Any) -> None:
        for one in structs(answer):
            for name in ("error_code", "partition_error_code"):
                if getattr(one, name, 0) in codes:
                    setattr(one, name, 0)

    return change


def error(code: int) -> Change:
    """Every result of the answer, and not the answer itself, has this error."""

    def change(answer: Any, request: Any) -> None:
        for one in structs(answer):
            if one is not answer and hasattr(one, "error_code"):
                one.error_code = code

    return change


def top_error(code: int) -> Change:
    """The answer itself has this error."""

    def change(answer: Any, request: Any) -> None:
        answer.error_code = code

    return change


def every(**values: Any) -> Change:
    """Set these fields wherever they are; a function makes the new value of the old one."""

    def change(answer: Any, request: Any) -> None:
        for one in structs(answer):
            for name, value in values.items():
                if hasattr(one, name):
                    setattr(one, name, value(getattr(one, name)) if callable(value) else value)

    return change


class Slow(Fault):
    """The responses of one API come late: not long before the time of the rule is over."""

    time_s = 5.0

    def __init__(self, api: int, seconds: float) -> None:
        self._api, self._seconds = api, seconds

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        if peek(request)[0] == self._api:
            time.sleep(self._seconds)
        return [frame(response)]
