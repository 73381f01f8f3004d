"""The descriptors of kinds and of record types: complete, and in agreement with each other."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kwire.cluster import Image, apply, image_records
from kwire.cluster.affected_entities import affected_entities
from kwire.cluster.entities import KINDS, RECORD_TYPES
from kwire.cluster.image import METADATA_VERSION
from kwire.cluster.kind import Kind
from kwire.cluster.shell_view import entities, without_secrets
from kwire.message import Message
from kwire.messages import BY_KEY
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.protocol.metadata_version import LATEST_PRODUCTION_METADATA_VERSION
from tests.kwire.values import random_message

#: Attributes that decide what a record does, or name another entity.
_FIXED: dict[str, Any] = {"remove": False, "feature_level": 1, "next_producer_id": 7, "value": "v"}


def image_of_all_kinds() -> tuple[Image, dict[str, Message]]:
    """Return an image with one entity of each kind at least, and the record that made each."""
    rng, image, made = random.Random(7), Image(), dict[str, Message]()
    level = FeatureLevelRecord(
        name=METADATA_VERSION, feature_level=LATEST_PRODUCTION_METADATA_VERSION
    )
    apply(image, level)
    for kind in KINDS:
        cls = kind.records[0].record
        record = random_message(cls, max(cls.VERSIONS), rng)
        for attribute, value in _FIXED.items():
            if hasattr(record, attribute) and not isinstance(getattr(record, attribute), float):
                setattr(record, attribute, value)
        if kind.kind == "partition":
            record.topic_id = next(iter(image.topics))
        apply(image, record)
        made[kind.kind] = record
    return image, made


def test_every_type_of_metadata_record_has_one_row() -> None:
    rows = [one.record.NAME for one in RECORD_TYPES]
    assert sorted(rows) == sorted(name for (kind, _), name in BY_KEY.items() if kind == "metadata")


def test_keys_are_attributes_of_their_records() -> None:
    for row in RECORD_TYPES:
        attributes = {field.attr for field in row.record.fields()}
        assert attributes.issuperset(row.key + (row.shown_key or ())), row.record
    for kind in KINDS:
        for row in kind.records:
            assert kind.member is None or hasattr(row.record, kind.member)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_entity_has_the_fields_and_the_name_that_its_kind_describes(kind: Kind) -> None:
    image, _ = image_of_all_kinds()
    states = [kind.find(image, key) for key in kind.keys(image)]
    assert states and None not in states
    for state in states:
        fields = kind.fields(state)
        assert list(fields) == list(kind.types)
        assert kind.name(state) == tuple(fields[name] for name in kind.key_fields)


def test_record_touches_the_entity_that_it_made() -> None:
    image, made = image_of_all_kinds()
    for kind in KINDS:
        ((name, key),) = affected_entities(image, made[kind.kind])
        whole = key[: len(kind.records[0].key)]
        assert name == kind.kind and whole in list(kind.keys(image))


def test_snapshot_of_all_kinds_folds_into_an_equal_image() -> None:
    image, _ = image_of_all_kinds()
    again = Image()
    for record, version in image_records(image):
        apply(again, type(record).decode(record.encode(version), version))
    assert list(entities(again)) == list(entities(image))


def test_places_of_entities_are_below_the_roots_of_their_kinds() -> None:
    image, _ = image_of_all_kinds()
    for kind in KINDS:
        for place, fields in kind.tree(image):
            assert any(place[: len(root) - 1] == root[:-1] for root in kind.roots)
            assert without_secrets(place, fields) == kind.redacted(place, fields)
