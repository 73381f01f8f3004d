"""Changes between images: applied to the first they give the second, at random places of a busy
log.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.cli.state_files import load_files
from kwire.cluster import Image, apply
from kwire.cluster.difference import ADDED, CHANGED, REMOVED, Change, difference
from kwire.cluster.kind import Fields, Place
from kwire.cluster.shell_view import entities
from kwire.messages.config_record import ConfigRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.topic_record import TopicRecord
from kwire.metadata_log.at import At
from kwire.uuid import Uuid
from tests.shared import needs_shared


def patched(before: dict[Place, Fields], change: Change) -> None:
    """``before`` with ``change`` made, checking that it fits."""
    if change.change == ADDED:
        assert change.before is None and change.after is not None and change.place not in before
        before[change.place] = change.after
    elif change.change == REMOVED:
        assert before.pop(change.place) == change.before and change.after is None
    else:
        assert change.change == CHANGED and change.before is not None and change.after is not None
        assert change.before != change.after
        fields = before[change.place]
        assert all(fields[name] == value for name, value in change.before.items())
        gone = change.before.keys() - change.after.keys()
        before[change.place] = {
            name: value for name, value in fields.items() if name not in gone
        } | change.after


@needs_shared
@pytest.mark.parametrize(("name", "node"), [("p-quorum", "2"), ("p-upgrade", "1")])
def test_a_state_and_its_changes_are_the_next_state(name: str, node: str, logs: Any) -> None:
    source = [logs(name) / "nodes" / node]
    end = load_files(source, At()).image.next_offset
    rng = random.Random(11)
    kinds = set()
    before = load_files(source, At(offset=0)).image
    for offset in [*sorted(rng.sample(range(1, end), 12)), end]:
        after = load_files(source, At(offset=offset)).image
        changed = dict(entities(before))
        for change in difference(before, after):
            patched(changed, change)
            kinds.add(change.change)
        assert changed == dict(entities(after)), offset
        assert not list(difference(after, after))
        before = after
    assert kinds == {ADDED, REMOVED, CHANGED}


def image_of(*records: Any) -> Image:
    image = Image()
    for record in records:
        apply(image, record)
    return image


def config(name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name="a", name=name, value=value)


def test_a_changed_entity_has_only_the_fields_that_differ() -> None:
    before = image_of(config("x", "1"), config("y", "2"), config("gone", "3"))
    after = image_of(config("x", "1"), config("y", "4"), config("new", "5"))
    expected = Change(
        CHANGED, ("configs", "TOPIC:a"), {"gone": "3", "y": "2"}, {"new": "5", "y": "4"}
    )
    assert list(difference(before, after)) == [expected]


def test_a_secret_that_changed_shows_as_changed_and_stays_hidden() -> None:
    (change,) = difference(
        image_of(config("my.password", "old")), image_of(config("my.password", "new"))
    )
    assert (change.before, change.after) == ({"my.password": "old"}, {"my.password": "new"})
    hidden = change.without_secrets()
    assert (hidden.before, hidden.after) == ({"my.password": "(redacted)"},) * 2
    (added,) = difference(image_of(), image_of(config("my.password", "new")))
    assert added.without_secrets() == Change(
        ADDED, ("configs", "TOPIC:a"), None, {"my.password": "(redacted)"}
    )


def test_partitions_are_listed_by_number() -> None:
    topic = Uuid(bytes(range(16)))
    partitions = [
        PartitionRecord(topic_id=topic, partition_id=index, replicas=[1], isr=[1])
        for index in (10, 9, 0)
    ]
    places = [
        change.place
        for change in difference(
            Image(), image_of(TopicRecord(name="t", topic_id=topic), *partitions)
        )
    ]
    assert places == [("topics", "byName", "t", *index) for index in ((), ("0",), ("9",), ("10",))]


def test_a_topic_made_anew_has_another_id() -> None:
    before = image_of(TopicRecord(name="t", topic_id=Uuid(bytes([1]) * 16)))
    after = image_of(TopicRecord(name="t", topic_id=Uuid(bytes([2]) * 16)))
    (change,) = difference(before, after)
    assert (change.change, change.place, list(change.after or ())) == (
        CHANGED,
        ("topics", "byName", "t"),
        ["id"],
    )
