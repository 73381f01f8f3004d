"""Shows entities as columns and JSON, from what the fold keeps of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kwire.cluster.entities.partitions import partition_fields
from kwire.message import Message
from kwire.spark.exact import json_text
from kwire.uuid import Uuid

Fields = dict[str, Any]
#: An entity at some time: the record of a partition, which is never changed once it is in an image,
#: or the columns of an entity of any other kind.
Seen = Message | Fields


def shown(seen: Any, topic: str | None) -> Fields:
    """The columns of an entity; ``topic`` is the name of a partition's topic at that time."""
    if isinstance(seen, dict):
        return seen
    named = {"topicId": str(seen.topic_id), "topic": topic, "partition": seen.partition_id}
    return named | partition_fields(seen)


def fields_text(fields: Fields) -> str:
    """The columns of an entity as JSON."""
    value = fields.get("value")
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        fields = {**fields, "value": str(value)}  # JSON has no infinity
    return json_text(fields)


@lru_cache(32_768)
def uuid_text(one: Uuid) -> str:
    """The text of an id. A topic has it in every row of its partitions."""
    return str(one)
