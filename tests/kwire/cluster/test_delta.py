"""Changes kept beside an image: seen through it at once, in it only after the commit."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster import Delta, Image, Loader, apply
from kwire.cluster.delta import OverlayDict
from kwire.message import Message
from kwire.messages.config_record import ConfigRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.uuid import Uuid
from tests.kwire.cluster.kafka_state import state_of, truth
from tests.kwire.cluster.test_state import fold, stream
from tests.shared import needs_shared

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["set", "delete", "pop", "get", "setdefault", "in", "inner"]),
        st.integers(0, 5),
        st.integers(0, 9),
    )
)


def do(target: Any, operation: str, key: int, value: int) -> Any:
    """One operation on a dictionary of dictionaries, as folding uses them; its outcome."""
    match operation:
        case "set":
            target[key] = {value: value}
        case "delete":
            try:
                del target[key]
            except KeyError:
                return "missing"
        case "pop":
            return copy.copy(target.pop(key, None))
        case "get":
            return copy.copy(target.get(key))
        case "setdefault":
            target.setdefault(key, {})[value] = -1
        case "in":
            return key in target, len(target), sorted(target)
        case "inner":
            if key in target:
                target[key].pop(value, None)
                target[key][value + 1] = 0
    return None


@given(
    st.dictionaries(st.integers(0, 5), st.dictionaries(st.integers(0, 9), st.integers())),
    OPERATIONS,
)
def test_a_layer_is_the_dictionary_that_it_will_become(
    start: dict[int, dict[int, int]], operations: list[Any]
) -> None:
    plain, below = copy.deepcopy(start), copy.deepcopy(start)
    layer: OverlayDict[int, dict[int, int]] = OverlayDict(below)
    for operation in operations:
        assert do(plain, *operation) == do(layer, *operation)
        assert below == start
    assert dict(layer.items()) == plain
    layer.commit([])
    assert below == plain


@needs_shared
@pytest.mark.parametrize(("name", "node"), [("p-quorum", "2"), ("p-upgrade", "1"), ("p-old", "1")])
def test_a_log_in_pieces_of_any_size(name: str, node: str, logs: Any) -> None:
    """The base does not change before the commit, and is Kafka's after the last."""
    root: Path = logs(name)
    rng = random.Random(9)
    base, loader = Image(), Loader()
    left, before = 0, None
    delta = Delta(base)
    for offset, epoch, record in stream(root / "nodes" / node / "__cluster_metadata-0"):
        if left == 0:
            assert before is None or state_of(base) == before
            delta.commit()
            before = state_of(base) if rng.random() < 0.05 else None
            delta, left = Delta(base), rng.choice((1, 2, 10, 300))
            loader.image = delta.image
        fold(loader, offset, epoch, record)
        left -= 1
    delta.commit()
    end, expected = truth(root / "truth" / node / "state-END.jsonl")
    assert (base.next_offset, base.epoch >= 1) == (end, True)
    assert state_of(base) == expected


def test_commit_of_a_delta_returns_the_replaced_values() -> None:
    old, other = object(), object()
    layer: OverlayDict[str, object] = OverlayDict({"a": old, "b": other, "c": 1})
    layer["a"] = 2
    del layer["b"]
    layer["new"] = 3
    replaced: list[Any] = []
    layer.commit(replaced)
    assert [one for one in replaced if one is not None] == [other, old]


def committed(image: Image, *records: Message) -> Delta:
    delta = Delta(image)
    for record in records:
        apply(delta.image, record)
    delta.commit()
    return delta


def test_commit_tells_the_topics_that_it_created_changed_and_deleted() -> None:
    image = Image()
    partition = PartitionRecord(topic_id=A, replicas=[1], isr=[1], leader=1)
    again = RemoveTopicRecord(topic_id=A), TopicRecord(name="a", topic_id=Uuid(b"c" * 16))
    steps: list[tuple[list[str], tuple[Message, ...]]] = [
        (["a"], (TopicRecord(name="a", topic_id=A), partition)),
        (["b"], (TopicRecord(name="b", topic_id=B),)),
        (["a"], (PartitionChangeRecord(topic_id=A, leader=1),)),
        (["a"], again),
        (["b"], (RemoveTopicRecord(topic_id=B),)),
        ([], (ConfigRecord(resource_type=2, resource_name="a", name="x", value="1"),)),
        ([], ()),
    ]
    for names, records in steps:
        assert committed(image, *records).changed_topics() == names
