"""Large images come and go without the garbage collector, and without pulling anything from under
others.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.sources import gc_tuning
from gateway.sources.gc_tuning import (
    GROWTH_MIN,
    LOOSE_OBJECTS_MAX,
    FoldedObjects,
    collector_paused,
    freeze,
    freeze_survivors,
    frozen_when_made,
    image_loaded,
    release_incrementally,
    set_aside,
)
from kwire.cluster import Image
from kwire.uuid import Uuid
from tests.shared import mistyped


class Thing:
    pass


class Cyclic:
    def __init__(self) -> None:
        self.itself = self
        self.more = [object() for _ in range(10)]


def never(work: Callable[[], None]) -> None:
    """Run nothing: frozen objects stay."""


@pytest.fixture(autouse=True)
def collector_of_before() -> Iterator[None]:
    """Restore the collector behind each test: it runs, with nothing frozen and no image."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    image_loaded(Image())
    gc.callbacks[:] = callbacks
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.enable()


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> int:
    """The blocks that memory grows by until frozen objects are collected: a quarter of the memory
    of this process depends on the tests before.
    """
    blocks_more = GROWTH_MIN // 10
    monkeypatch.setattr(gc_tuning, "_more", lambda blocks: blocks + blocks_more)
    return blocks_more


def test_the_collector_is_paused_and_comes_back() -> None:
    with pytest.raises(KeyError), collector_paused():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled(), "who had it off keeps it off"


def test_the_first_thread_to_end_does_not_end_the_pause_of_others() -> None:
    first, second = collector_paused(), collector_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    gc.enable()
    with collector_paused():
        assert not gc.isenabled(), "somebody who knows nothing of us had set it going"
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_release_frees_every_part_of_an_image_without_other_references() -> None:
    image = Image(
        partitions={Uuid(bytes(16)): {0: mistyped(Thing()), 1: mistyped(Thing())}},
        brokers={1: mistyped(Thing())},
    )
    held = Image(brokers={1: mistyped(Thing())})
    gone = [
        weakref.ref(one) for one in (*image.partitions[Uuid(bytes(16))].values(), image.brokers[1])
    ]
    replaced = [Thing(), None]
    retired = [image, held, *replaced]
    del image
    release_incrementally(retired)
    assert retired == [] and [one() for one in gone] == [None] * 3
    assert list(held.brokers) == [1]


def test_garbage_is_collected_and_not_hidden_from_the_collector() -> None:
    cycle: Any = Thing()
    cycle.itself = cycle
    gone = weakref.ref(cycle)
    alive = [Thing() for _ in range(LOOSE_OBJECTS_MAX + 1)]
    with collector_paused():
        del cycle
        frozen = gc.get_freeze_count()
        freeze()
    assert gone() is None
    assert gc.get_freeze_count() - frozen > len(alive), (
        "many objects stay, so later passes leave them out"
    )


def test_few_objects_are_not_hidden_from_the_collector() -> None:
    alive = [Thing() for _ in range(LOOSE_OBJECTS_MAX + 1)]
    freeze()
    frozen = gc.get_freeze_count()
    for _ in range(10):
        alive = [Thing() for _ in range(100)]  # each round lets go of the one before
        freeze()
    assert gc.get_freeze_count() <= frozen and len(alive) == 100


def test_many_objects_are_hidden_from_the_collector_once_they_are_made() -> None:
    frozen = gc.get_freeze_count()
    with frozen_when_made(LOOSE_OBJECTS_MAX + 1):
        assert not gc.isenabled(), "making them starts no collection"
        made = [Thing() for _ in range(LOOSE_OBJECTS_MAX + 1)]
    assert gc.isenabled() and gc.get_freeze_count() - frozen > len(made)


def test_few_objects_or_those_of_a_failure_are_left_to_the_collector() -> None:
    gc.collect()
    frozen = gc.get_freeze_count()
    with frozen_when_made(LOOSE_OBJECTS_MAX):
        assert gc.isenabled()
    with pytest.raises(KeyError), frozen_when_made(LOOSE_OBJECTS_MAX + 1):
        raise KeyError
    assert gc.isenabled() and gc.get_freeze_count() <= frozen


def test_full_collection_does_not_visit_what_survived_the_one_before() -> None:
    callbacks = len(gc.callbacks)
    freeze_survivors(never)
    freeze_survivors(never)
    assert len(gc.callbacks) == callbacks + 1
    alive = [Thing() for _ in range(100_000)]
    gone = weakref.ref(alive[0])
    gc.collect()
    assert len(gc.get_objects()) < LOOSE_OBJECTS_MAX
    del alive
    assert gone() is None


def test_cycles_that_were_frozen_alive_are_freed_once_memory_has_grown(
    growth: int,
) -> None:
    """Each round freezes live cycles, which are garbage in the next one."""
    due: list[Callable[[], None]] = []
    rounds, per_round, asked = 12, growth // 40, 0
    freeze_survivors(due.append)
    first: list[weakref.ref[Cyclic]] = []
    before = sys.getallocatedblocks()
    for _ in range(rounds):
        alive = [Cyclic() for _ in range(per_round)]
        gc.collect()
        first.append(weakref.ref(alive[0]))
        del alive
        asked += len(due)
        while due:
            due.pop()()
    kept = sum(one() is not None for one in first)
    assert asked >= 2 and kept < rounds * 2 // 3
    assert sys.getallocatedblocks() < before + rounds * per_round * 10
    gc.collect()
    assert gc.get_freeze_count() > 0, "between two of them, survivors are frozen as before"


def test_steady_memory_never_has_frozen_objects_collected() -> None:
    due: list[Callable[[], None]] = []
    freeze_survivors(due.append)
    for _ in range(20):
        alive = [Thing() for _ in range(GROWTH_MIN // 10)]
        gc.collect()
    assert alive and not due


def test_new_entries_of_the_image_never_have_frozen_objects_collected_but_a_leak_does(
    growth: int,
) -> None:
    due: list[Callable[[], None]] = []
    image, leak = Image(), []
    image_loaded(image)
    freeze_survivors(due.append)
    before = sys.getallocatedblocks()
    for number in range(2 * growth // 100):
        partitions = {index: mistyped(Thing()) for index in range(100)}
        image.partitions[Uuid(number.to_bytes(16, "big"))] = partitions
    gc.collect()
    assert sys.getallocatedblocks() > before + growth and not due
    for _ in range(4):  # what the new entries explain is counted once
        leak += [Thing() for _ in range(2 * growth)]
        gc.collect()
    assert due


def test_state_that_a_fold_builds_never_has_frozen_objects_collected_but_a_leak_behind_it_does(
    growth: int,
) -> None:
    due: list[Callable[[], None]] = []
    folded, state = FoldedObjects(), []
    freeze_survivors(due.append)
    before = sys.getallocatedblocks()
    for _ in range(20):
        state += [Thing() for _ in range(growth // 4)]
        folded.made(1, is_building=True)
        gc.collect()
    assert sys.getallocatedblocks() > before + 4 * growth and not due
    for _ in range(4):
        state += [Thing() for _ in range(growth)]
        folded.made(1, is_building=False)
        gc.collect()
    assert due


def test_objects_of_a_fold_at_the_end_of_its_log_are_collected_before_they_are_frozen() -> None:
    gc.collect()
    gc.freeze()
    gc.disable()
    folded, alive = FoldedObjects(), [Thing() for _ in range(LOOSE_OBJECTS_MAX)]
    garbage = weakref.ref(Cyclic())
    folded.made(gc_tuning._LOOSE_MAX - 1, is_building=False)
    assert garbage() is not None
    before = gc.get_freeze_count()
    folded.made(1, is_building=False)
    assert garbage() is None
    assert gc.get_freeze_count() >= before + len(alive)


def test_no_collection_takes_long_while_many_objects_are_made() -> None:
    visited: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            visited.append(len(gc.get_objects()))

    gc.collect()
    gc.freeze()
    freeze_survivors(never)
    gc.callbacks.append(count)
    alive = [Thing() for _ in range(500_000)]
    assert len(visited) > 5 and max(visited) < 5 * LOOSE_OBJECTS_MAX
    del alive


def test_long_list_of_records_is_set_aside_and_frozen() -> None:
    gc.unfreeze()
    assert set_aside([object()] * 10) == [] == set_aside((object(),) * 20_000)
    assert gc.get_freeze_count() == 0
    long = [object()] * 20_000
    assert set_aside(long) is long and gc.get_freeze_count() > 0
