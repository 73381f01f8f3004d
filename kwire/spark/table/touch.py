"""Names the entities that a record is about to change as kinds of the tables.

``kwire.cluster.affected_entities`` finds them.
"""

from __future__ import annotations

from kwire.cluster import Image
from kwire.cluster.affected_entities import affected_entities
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.message import Message
from kwire.spark.table.kinds import BY_ENTITY, Key, Kind

#: An entity: its kind, and its key among those of its kind.
Place = tuple[Kind, Key]

#: Record types that say a part of what an entity is.
PATCHES = frozenset(
    (
        "PARTITION_CHANGE_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "FENCE_BROKER_RECORD",
        "UNFENCE_BROKER_RECORD",
        "CLEAR_ELR_RECORD",
    )
)


def touched(image: Image, record: Message) -> list[Place]:
    """The entities that ``record`` sets, patches or deletes if it is applied to ``image``; none for
    one that changes nothing.
    """
    return [(BY_ENTITY[entity], key) for entity, key in affected_entities(image, record)]


def topic_of(image: Image, place: Place) -> str | None:
    """The name of the topic that an entity belongs to, as of now; None if it belongs to no topic,
    or the topic does not exist.
    """
    kind, key = place
    if kind.entity in ("topic", "partition"):
        return image.topics.get(key[0])
    return str(key[1]) if kind.entity == "config" and key[0] == TOPIC_RESOURCE else None
