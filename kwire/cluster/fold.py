"""Applies one record to an image (``MetadataDelta.replay``). Each kind of entity has the functions
for its records (``kwire.cluster.entities``).

A record may refer only to entities that exist: a controller writes no other log. ``apply`` raises
FoldError for a record that does not.
"""

from __future__ import annotations

from typing import Final

from kwire.cluster.entities import RECORD_TYPES
from kwire.cluster.image import Image
from kwire.cluster.kind import FoldError
from kwire.message import Message

_CHANGES: Final = {one.record.NAME: one.change for one in RECORD_TYPES}


def apply(image: Image, record: Message) -> None:
    """Apply ``record`` to ``image``. Raises FoldError, and leaves the image unchanged then.

    Records that mark transactions, and those that matter only in a migration or to an idle log
    (NoOpRecord), change nothing.
    """
    try:
        change = _CHANGES[record.NAME]
    except KeyError:
        raise FoldError(f"{record.NAME} is no metadata record that a state is made of") from None
    change(image, record)
