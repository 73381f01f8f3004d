"""Large images come and go without the garbage collector, and without pulling anything from under
others.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from gateway.sources.image_memory import (
    LOOSE_OBJECTS_MAX,
    collector_paused,
    freeze,
    frozen_when_made,
    release_incrementally,
)
from kwire.cluster import Image
from kwire.uuid import Uuid
from tests.shared import mistyped


class Thing:
    pass


def test_the_collector_is_paused_and_comes_back() -> None:
    with pytest.raises(KeyError), collector_paused():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled(), "who had it off keeps it off"
    finally:
        gc.enable()


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
