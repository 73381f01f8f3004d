"""Counts of error codes: against a plain walk over every field, for every response of Kafka."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from gateway.ports.answer_errors import count_errors, errors_of
from kwire.errors import UnknownApi
from kwire.message import Message, Struct
from kwire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.protocol import ApiKey
from kwire.registry import response_type

_S = TypeVar("_S", bound=Struct)


def _responses() -> Iterator[type[Message]]:
    for key in ApiKey:
        try:
            yield response_type(key)
        except UnknownApi:  # APIs of ZooKeeper's time have no schema any more
            continue


def _filled(kind: type[_S], dice: random.Random) -> _S:
    """A struct with error codes, arrays and inner structs at random, null among them."""
    struct: Any = kind()
    for field in kind.fields():
        if field.attr == "error_code":
            struct.error_code = dice.choice((0, 0, 3, 29))
        elif field.is_struct:
            inner = kind.struct_class(field.type)
            made = [_filled(inner, dice) for _ in range(dice.randrange(4))]
            value = made if field.array else next(iter(made), None)
            setattr(struct, field.attr, dice.choice((value, value, None)))
    return struct


def _walked(struct: Struct) -> Iterator[int]:
    for field in type(struct).fields():
        value = getattr(struct, field.attr)
        if field.attr == "error_code" and value:
            yield value
        elif field.is_struct and value is not None:
            for one in value if field.array else (value,):
                yield from _walked(one)


@pytest.mark.parametrize("kind", list(_responses()), ids=lambda kind: kind.NAME)
def test_every_error_code_of_a_response_is_counted(kind: type[Message]) -> None:
    dice = random.Random(kind.NAME)
    responses = [_filled(kind, dice) for _ in range(30)]

    for response in responses:
        assert errors_of(response) == Counter(_walked(response))


def test_error_codes_of_a_part_are_added_to_those_found_before() -> None:
    found = Counter({3: 2})
    topic = FetchableTopicResponse(
        partitions=[PartitionData(error_code=code) for code in (3, 0, 29)]
    )

    count_errors(topic, found)

    assert found == {3: 3, 29: 1}


def test_a_response_without_errors_counts_nothing() -> None:
    topic = FetchableTopicResponse(partitions=[PartitionData(), PartitionData()])

    assert errors_of(FetchResponse(responses=[topic])) == {}
