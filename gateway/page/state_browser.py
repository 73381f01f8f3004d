"""Shows one level of the tree of ``kwire state``, and the difference of two states, in parts.

A state may have a million partitions: only the entities below the path are made, by an image that
has no others. Values and their places are those of ``kwire.cluster.shell_view``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from gateway.base.slices import in_order, run
from kwire.cluster import Image
from kwire.cluster.difference import Change, difference
from kwire.cluster.shell_view import shell_view
from kwire.uuid import Uuid

#: Entries of one response.
ENTRIES_MAX: Final = 500
#: Differences of one response.
DIFFERENCES_MAX: Final = 500
#: Topics that are compared in one step.
_COMPARED: Final = 50
_BY_NAME, _BY_ID = ("topics", "byName"), ("topics", "byId")


class NoSuchPath(ValueError):
    """The state has nothing at a path; the text says which name is missing."""


def browse(
    image: Image, path: Sequence[str], *, start: int = 0, text: str = "", time: str | None = None
) -> dict[str, Any]:
    """Return the entries at ``path`` from number ``start`` on, those whose names contain ``text``.

    An entry is ``[name, value]``, or ``[name, null, size]`` for an object of ``size`` entries.
    Raises NoSuchPath.
    """
    place = tuple(path)
    entries = _topics(image, place) if place in (_BY_NAME, _BY_ID) else _members(image, place, time)
    found = [one for one in entries if text.casefold() in one[0].casefold()] if text else entries
    return {
        "path": list(path),
        "offset": image.next_offset,
        "total": len(found),
        "start": start,
        "entries": found[start : start + ENTRIES_MAX],
    }


def _topics(image: Image, place: tuple[str, ...]) -> list[list[Any]]:
    """Return an entry for each topic: its partitions, its id and its name."""
    by_id = place == _BY_ID
    return [
        [name, None, len(image.partitions[topic_id]) + 2]
        for name, topic_id in run(
            in_order(
                (str(topic_id) if by_id else name, topic_id)
                for name, topic_id in image.topic_ids.items()
            )
        )
    ]


def _members(image: Image, place: tuple[str, ...], time: str | None) -> list[list[Any]]:
    node: Any = shell_view(_below(image, place), time=time)
    for depth, name in enumerate(place):
        if not isinstance(node, dict) or name not in node:
            raise NoSuchPath(f"/{'/'.join(place[:depth])} has no {name}")
        node = node[name]
    if not isinstance(node, dict):
        raise NoSuchPath(f"/{'/'.join(place)} is a value")
    sizes = {("topics", kind): len(image.topic_ids) for kind in ("byName", "byId")}
    return [
        [name, None, sizes.get((*place, name), len(value))]
        if isinstance(value, dict)
        else [name, value]
        for name, value in node.items()
    ]


def _below(image: Image, place: tuple[str, ...]) -> Image:
    """Return an image with everything that is shown at ``place``: one topic, or no topic."""
    if place[:2] not in (_BY_NAME, _BY_ID) or len(place) < 3:
        return _without_topics(image)
    by_name = place[:2] == _BY_NAME
    for name, topic_id in image.topic_ids.items() if not by_name else ():
        if str(topic_id) == place[2]:
            return _of_topics(image, [name])
    return _of_topics(image, [place[2]] if by_name and place[2] in image.topic_ids else [])


def _without_topics(image: Image) -> Image:
    return replace(image, topics={}, topic_ids={}, partitions={})


def _of_topics(image: Image, names: Sequence[str]) -> Image:
    ids: dict[str, Uuid] = {
        name: image.topic_ids[name] for name in names if name in image.topic_ids
    }
    return Image(
        next_offset=image.next_offset,
        epoch=image.epoch,
        topics={topic_id: name for name, topic_id in ids.items()},
        topic_ids=ids,
        partitions={topic_id: image.partitions[topic_id] for topic_id in ids.values()},
        next_producer_id=image.next_producer_id,
    )


def differences(before: Image, after: Image) -> dict[str, Any]:
    """Return the first ``DIFFERENCES_MAX`` entities that differ, and whether there are more. Their
    values are those of ``kwire diff``.
    """
    found = list(islice(_differences(before, after), DIFFERENCES_MAX + 1))
    return {
        "before": before.next_offset,
        "after": after.next_offset,
        "more": len(found) > DIFFERENCES_MAX,
        "differences": [
            {
                "change": one.change,
                "path": list(one.place),
                "before": one.before,
                "after": one.after,
            }
            for one in (found[:DIFFERENCES_MAX])
        ],
    }


def _differences(before: Image, after: Image) -> Iterator[Change]:
    """Yield as ``kwire.cluster.difference`` does, a few topics at a time: a sort of all entities of
    a large cluster would hold the interpreter's lock.
    """
    for one in difference(_without_topics(before), _without_topics(after)):
        yield one.without_secrets()
    names = list(run(in_order(before.topic_ids.keys() | after.topic_ids.keys())))
    for at in range(0, len(names), _COMPARED):
        some = names[at : at + _COMPARED]
        for one in difference(_of_topics(before, some), _of_topics(after, some)):
            if one.place[0] == "topics":
                yield one.without_secrets()
