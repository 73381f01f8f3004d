"""Compares two images, entity by entity and field by field. It does not look at the records that
made them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kwire.cluster.image import Image
from kwire.cluster.kind import Fields, Place
from kwire.cluster.shell_view import entities, without_secrets

ADDED: Final = "added"
REMOVED: Final = "removed"
CHANGED: Final = "changed"


class Change(NamedTuple):
    """One entity that differs. A side on which it does not exist is None.

    A changed entity has only the fields that differ; a field that one side lacks, such as a config
    that was set, is missing on that side.
    """

    change: str
    place: Place
    before: Fields | None
    after: Fields | None

    def without_secrets(self) -> Change:
        """Return the change with secrets replaced on both sides: a changed password shows as
        changed, without its values.
        """
        before, after = (
            None if fields is None else without_secrets(self.place, fields)
            for fields in (self.before, self.after)
        )
        return self._replace(before=before, after=after)


def difference(before: Image, after: Image) -> Iterator[Change]:
    """Return every entity that was added, removed or changed, secrets included, in the order of the
    tree.

    The offsets and epochs of the images are not compared.
    """
    old, new = dict(entities(before)), dict(entities(after))
    for place in sorted(old.keys() | new.keys(), key=_natural):
        was, now = old.get(place), new.get(place)
        if was is None:
            yield Change(ADDED, place, None, now)
        elif now is None:
            yield Change(REMOVED, place, was, None)
        elif was != now:
            yield Change(CHANGED, place, _unlike(was, now), _unlike(now, was))


def _unlike(these: Fields, those: Fields) -> Fields:
    """Return the fields of ``these`` that ``those`` lacks, or has with another value."""
    return {
        name: value for name, value in these.items() if name not in those or those[name] != value
    }


def _natural(place: Place) -> list[tuple[int, int, str]]:
    """Sort partition 10 after partition 9."""
    return [
        (0, int(name), "") if name.isascii() and name.isdigit() else (1, 0, name) for name in place
    ]
