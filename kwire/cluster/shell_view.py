"""Shows an image as names and values in the places where kafka-metadata-shell shows them. It knows
no wire format, and no kind of entity (``kwire.cluster.entities``).

An *entity* has fields of its own: a topic, a partition, the configs of one resource, an ACL. The
tree has all entities in their places; two images are compared entity by entity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kwire.cluster.entities import KINDS
from kwire.cluster.image import Image
from kwire.cluster.kind import Fields, Place

_IN_ORDER: Final = sorted(KINDS, key=lambda kind: kind.roots)
#: Kinds whose secrets are hidden have a root of their own.
_REDACTED: Final = {kind.roots[0][0]: kind.redacted for kind in KINDS if kind.roots}


def shell_view(
    image: Image, *, show_secrets: bool = False, time: str | None = None
) -> dict[str, Any]:
    """The whole image, nested. ``time`` is when its last record was written, for ``provenance``,
    where it is known.

    SCRAM keys and the values of sensitive configs are replaced unless ``show_secrets``.
    """
    root: dict[str, Any] = {}
    for kind in _IN_ORDER:
        for place in kind.roots:
            _node(root, place)
    root["provenance"] = {"offset": image.next_offset - 1, "epoch": image.epoch, "time": time}
    for place, fields in entities(image):
        _node(root, place).update(fields if show_secrets else without_secrets(place, fields))
    topics = root["topics"]
    for name, topic_id in sorted(image.topic_ids.items(), key=lambda item: str(item[1])):
        topics["byId"][str(topic_id)] = topics["byName"][name]
    return dict(sorted(root.items()))


def _node(root: dict[str, Any], place: Place) -> dict[str, Any]:
    for name in place:
        root = root.setdefault(name, {})
    return root


def entities(image: Image) -> Iterator[tuple[Place, Fields]]:
    """Yield every entity once (topics by name), with its secrets, in the order of the tree. Names
    do not repeat.
    """
    for kind in _IN_ORDER:
        yield from kind.tree(image)


def without_secrets(place: Place, fields: Fields) -> Fields:
    """Return the fields of the entity at ``place``, or some of them, with secrets replaced."""
    return _REDACTED[place[0]](place, fields)
