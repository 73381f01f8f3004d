"""Makes the functions of kinds whose entities are the records that an image holds, one for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kwire.cluster.image import Image
from kwire.cluster.kind import Key, State
from kwire.message import Message


def find_in(attribute: str) -> Callable[[Image, Key], State | None]:
    """Return ``Kind.find`` of the records in a mapping of the image. They are never changed."""
    return lambda image, key: getattr(image, attribute).get(key[0])


def keys_of(attribute: str) -> Callable[[Image], Iterator[Key]]:
    """Return ``Kind.keys`` of the records in a mapping of the image."""
    return lambda image: ((key,) for key in sorted(getattr(image, attribute)))


def records_of(attribute: str) -> Callable[[Image], Iterator[tuple[Message, int]]]:
    """Return ``Kind.snapshot`` of the records in a mapping of the image, at version 0."""
    return lambda image: ((record, 0) for _, record in sorted(getattr(image, attribute).items()))


def set_in(attribute: str, key: str) -> Callable[[Image, Any], None]:
    """Return ``RecordType.change`` of a record that the image holds under its attribute ``key``."""

    def change(image: Image, record: Any) -> None:
        getattr(image, attribute)[getattr(record, key)] = record

    return change


def remove_from(attribute: str, key: str) -> Callable[[Image, Any], None]:
    """Return ``RecordType.change`` of a record that removes one which may be gone already."""

    def change(image: Image, record: Any) -> None:
        getattr(image, attribute).pop(getattr(record, key), None)

    return change
