"""Waiting returns what a condition gave, and says what did not come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing

from tests import waiting
from tests.waiting import until, until_async


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.05)


def answers(*given: Any) -> Any:
    """A condition that returns or raises each of ``given``, and the last one from then on."""
    left = list(given)

    def condition() -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return condition


def later(condition: Any) -> Any:
    async def one() -> Any:
        await trio.lowlevel.checkpoint()
        return condition()

    return one


def both(condition: Any, *more: Any) -> Iterator[Any]:
    """Wait in a thread's way, and in trio's for a condition of either kind."""
    yield lambda: until(condition(), *more)
    clock = trio.testing.MockClock(autojump_threshold=0)
    yield lambda: trio.run(until_async, condition(), *more, clock=clock)
    yield lambda: trio.run(until_async, later(condition()), *more, clock=clock)


def test_value_is_returned_once_it_is_true() -> None:
    for wait in both(lambda: answers(0, OSError("refused"), "", 7), "the answer"):
        assert wait() == 7


def test_value_is_returned_once_the_caller_accepts_it() -> None:
    for wait in both(lambda: answers(1, 2, 3), "three", lambda value: value > 2):
        assert wait() == 3


@pytest.mark.usefixtures("impatient")
def test_failure_names_the_condition_and_the_last_value() -> None:
    for wait in both(lambda: answers(["a"]), "two topics", lambda value: len(value) == 2):
        with pytest.raises(AssertionError, match=r"two topics: not within 0.05 s .*last: \['a'\]"):
            wait()


@pytest.mark.usefixtures("impatient")
def test_failure_of_an_unnamed_condition_has_its_text() -> None:
    topics: list[str] = []
    with pytest.raises(AssertionError, match=r"lambda: len\(topics\) == 2.*last: False"):
        until(lambda: len(topics) == 2)
    with pytest.raises(AssertionError, match="<built-in method copy of list"):
        until(topics.copy)


@pytest.mark.usefixtures("impatient")
def test_failure_has_the_last_exception_as_its_cause() -> None:
    for wait in both(lambda: answers(OSError("refused")), "a connection"):
        with pytest.raises(AssertionError, match=r"last: OSError\('refused'\)") as failure:
            wait()
        assert isinstance(failure.value.__cause__, OSError)


def test_condition_that_cannot_hold_any_more_ends_the_wait() -> None:
    def condition() -> Any:
        pytest.fail("the process has ended")

    for wait in both(lambda: condition, "its line"):
        with pytest.raises(pytest.fail.Exception, match="the process has ended"):
            wait()
