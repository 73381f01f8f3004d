"""Work in slices: elements are sorted in short steps."""

from __future__ import annotations

import random

import pytest

from gateway.base.slices import in_order, run
from tests.gateway.steps import calls_per_step


@pytest.mark.parametrize("count", [0, 1, 1999, 2000, 2001, 9000])
def test_elements_are_sorted(count: int) -> None:
    numbers = [random.Random(count).randrange(1000) for _ in range(count)]
    assert list(run(in_order(iter(numbers)))) == sorted(numbers)


def test_many_elements_are_sorted_in_steps() -> None:
    numbers = list(range(20_000, 0, -1))
    steps = list(in_order(numbers))
    assert len(steps) == 10
    _, calls = calls_per_step(in_order(numbers))
    assert calls < 5_000
