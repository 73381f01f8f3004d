"""Keeps the names of all topics sorted, and the encoded topics of Metadata responses.

Names are kept in runs, each with the encodings of its topics that were asked for. A change of a
topic replaces its run, and the encodings of the other runs are sent again. The index follows the
image when a client asks for topics, by the names that have changed since: it hears of each delta
(``MetadataPublisher``), and reads the image for everything else. It is pure: work that grows with
the number of topics is done in slices, between which the image may change.

An encoding depends on the form of the response, on the set of nodes that the client can reach, and
on the topics of its run. It does not depend on what the client may do: the handler cuts topics out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.base.sizes import MIB
from gateway.base.slices import in_order, pieces, run
from gateway.controller.topic_names import RESERVED_TOPICS
from gateway.handlers.metadata_encoding import (
    EncodedTopics,
    MetadataEncoder,
    NamedPartitions,
    form_of,
)
from gateway.handlers.topic_changes import TopicChanges
from gateway.ports.services import AUDIT_TOPIC
from kwire.cluster.image import Image

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from kwire.cluster import Delta

#: Topics and partitions in a run, unless it has a single topic: they are encoded in 0.1 to 0.3 ms.
_RUN_MAX: Final = 100
#: A request for single topics follows so many changes, or that many topics if the index is empty,
#: before it is answered. Where more are to follow, its topics are encoded without the index.
_AT_ONCE_MAX: Final = 500
#: Encodings that are kept, bytes: those of 1,500,000 partitions with three replicas.
KEPT_MAX: Final = 64 * MIB
#: Combinations of form and reachable nodes whose encodings are kept.
_ENCODINGS_MAX: Final = 16
#: Topics that no image has, and that are listed beside those of the image.
_FIXED: Final = RESERVED_TOPICS - {AUDIT_TOPIC}


class Run:
    """Some topics, by ``names`` in order. A change replaces it by others: then it is not
    ``current`` any more.
    """

    __slots__ = ("current", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.current = True


class Encoding:
    """The kept encodings of one form for one set of reachable nodes, which are its ``key``."""

    def __init__(self, form: int, nodes: frozenset[int]) -> None:
        self.key = form, nodes
        self.encoder = MetadataEncoder(form, nodes)
        self.kept: dict[Run, EncodedTopics] = {}
        self.size = 0  #: of ``kept``, bytes


class TopicIndex:
    """The topics of one image at a time, and their encodings of at most ``kept_max`` bytes."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self.kept_bytes = 0
        #: Of the image, since it was loaded. Its number is the version of the topics.
        self.changes = TopicChanges()
        self._image = Image()
        self._kept_max = kept_max
        self._changes: TopicChanges | None = None  # of the image that is indexed
        self._number = 0  # of the changes that are indexed
        self._runs: list[Run] = []
        self._firsts: list[str] = []  # the first name of each run
        self._encodings: OrderedDict[tuple[int, frozenset[int]], Encoding] = OrderedDict()

    def on_update(self, delta: Delta | None, image: Image) -> None:
        """Hear which topics of ``image`` a committed delta has changed; None: it is another
        image.
        """
        if delta is None:
            self._image, self.changes = image, TopicChanges()
        else:
            self.changes.add(delta.changed_topics())

    # The names.

    def follow(self) -> Slices[None]:
        """Index the topics as they are now, or later."""
        changes, number = self.changes, self.changes.number
        while self._changes is not changes or self._number < number:
            yield from self._catch_up()
            if changes is not self.changes:
                changes, number = self.changes, 0

    def follow_at_once(self) -> bool:
        """As :meth:`follow` without an interruption, if that takes less than some ms; whether the
        index is up to date then.
        """
        if self._is_current:
            return True
        names = self._changed()
        if len(self._image.topic_ids if names is None else names) > _AT_ONCE_MAX:
            return False
        run(self._catch_up())
        return True

    def runs(self, first: str = "") -> Iterator[tuple[Run, int]]:
        """Yield the runs with the names from ``first`` on, in order, each with the position of its
        first such name. The index may change meanwhile: no name is yielded twice.
        """
        at = max(0, bisect_right(self._firsts, first) - 1)
        start = bisect_left(self._runs[at].names, first) if self._runs else 0
        while at < len(self._runs):
            current = self._runs[at]
            if start < len(current.names):
                last = current.names[-1]
                yield current, start
                at = max(0, bisect_right(self._firsts, last) - 1)
                start = bisect_right(self._runs[at].names, last) if self._runs else 0
            else:
                at, start = at + 1, 0

    def names(self, first: str = "") -> Iterator[str]:
        """Yield the names from ``first`` on, in order."""
        for one, start in self.runs(first):
            yield from one.names[start:]

    @property
    def _is_current(self) -> bool:
        return self._changes is self.changes and self._number == self.changes.number

    def _changed(self) -> list[str] | None:
        """Return the names to look at again; None if that is all."""
        known = self._changes is self.changes
        return self.changes.since(self._number) if known else None

    def _catch_up(self) -> Slices[None]:
        """Index all changes that are in the image now. Another request may do the same between two
        slices, and another image may come.
        """
        image, changes = self._image, self.changes
        number, changed = changes.number, self._changed()
        if changed is not None:
            yield from self._change(sorted(set(changed)), image)
            if self._changes is changes:
                self._number = max(self._number, number)
            return
        runs = yield from self._built(image)
        if self._changes is not changes or self._number < number:
            self._changes, self._number = changes, number
            self._runs, self._firsts = runs, [one.names[0] for one in runs]
            for encoding in self._encodings.values():
                encoding.kept, encoding.size = {}, 0
            self.kept_bytes = 0

    def _built(self, image: Image) -> Slices[list[Run]]:
        names = yield from in_order(image.topic_ids)
        runs: list[Run] = []
        for some in pieces(names, _RUN_MAX):
            runs += _divided(some, image)
            yield
        return runs

    def _change(self, names: list[str], image: Image) -> Slices[None]:
        """Replace the runs in which ``names``, in order, are or will be."""
        begin = 0
        while begin < len(names):
            at = max(0, bisect_right(self._firsts, names[begin]) - 1)
            is_last = at + 1 >= len(self._firsts)
            end = len(names) if is_last else bisect_left(names, self._firsts[at + 1], begin)
            end = min(end, begin + _AT_ONCE_MAX)
            self._replace(at, names[begin:end], image)
            begin = end
            yield

    def _replace(self, at: int, names: Iterable[str], image: Image) -> None:
        """Replace the run at this position by runs of its topics and those of ``names``."""
        before = self._runs[at : at + 1]
        for one in before:
            one.current = False
            for encoding in self._encodings.values():
                self._drop(encoding, one)
        after = _divided(sorted({*(before[0].names if before else ()), *names}), image)
        self._runs[at : at + 1] = after
        self._firsts[at : at + 1] = [one.names[0] for one in after]

    # Their encodings.

    def encoding(self, version: int, nodes: Iterable[int]) -> Encoding:
        """Return the encodings for a version of the response and a set of reachable nodes."""
        key = form_of(version), frozenset(nodes)
        found = self._encodings.get(key)
        if found is None:
            found = self._encodings[key] = Encoding(*key)
            if len(self._encodings) > _ENCODINGS_MAX:
                self._forget_oldest()
        self._encodings.move_to_end(key)
        return found

    def encoded(self, of: Run, encoding: Encoding) -> Slices[EncodedTopics]:
        """Return the encoded topics of a run. Those that were deleted since it was made are
        missing.
        """
        kept = encoding.kept.get(of)
        if kept is None:
            changes, topics = self.changes, _topics(of.names, self._image)
            kept = yield from encoding.encoder.encode(list(topics))
            if of.current and self._changes is changes:
                self._keep(encoding, of, kept)
        return kept

    def encoded_topic(self, name: str, encoding: Encoding) -> EncodedTopics | None:
        """Return the encoded topics of the run with this name, if they are kept or short; None if
        they are not known yet and long, or the index is not up to date or has no such name.
        """
        if not self.follow_at_once() or not self._runs:
            return None
        of = self._runs[max(0, bisect_right(self._firsts, name) - 1)]
        kept = encoding.kept.get(of)
        if kept is None and (len(of.names) > 1 or _lines(of.names, self._image) <= _AT_ONCE_MAX):
            kept = run(self.encoded(of, encoding))
        # A name may be new in the image, and this index not have heard of it yet.
        return kept if kept is not None and name in kept.names else None

    def _keep(self, encoding: Encoding, of: Run, encoded: EncodedTopics) -> None:
        """Keep an encoding. Those of forms and nodes that were not asked for recently go first; if
        there are no others, what is kept stays: responses are made in the order of names, so the
        oldest piece is the next that is used.
        """
        if self._encodings.get(encoding.key) is not encoding:
            return
        self._drop(encoding, of)  # it may have been encoded twice at the same time
        size = encoded.size
        while self.kept_bytes + size > self._kept_max:
            if next(iter(self._encodings.values())) is encoding:
                return
            self._forget_oldest()
        encoding.kept[of] = encoded
        encoding.size += size
        self.kept_bytes += size

    def _drop(self, encoding: Encoding, of: Run) -> None:
        kept = encoding.kept.pop(of, None)
        if kept is not None:
            encoding.size -= kept.size
            self.kept_bytes -= kept.size

    def _forget_oldest(self) -> None:
        _, oldest = self._encodings.popitem(last=False)
        self.kept_bytes -= oldest.size


def _topics(names: Iterable[str], image: Image) -> Iterator[NamedPartitions]:
    ids, partitions = image.topic_ids, image.partitions
    for name in names:
        topic_id = ids.get(name)
        if topic_id is not None:
            yield NamedPartitions(name, topic_id, partitions[topic_id])


def _lines(names: Iterable[str], image: Image) -> int:
    return sum(1 + len(topic.partitions) for topic in _topics(names, image))


def _divided(names: list[str], image: Image) -> list[Run]:
    """Return runs of about equal size of those ``names`` that are topics now."""
    sizes = [
        (topic.name, 1 + len(topic.partitions))
        for topic in _topics(names, image)
        if topic.name not in _FIXED
    ]
    total = sum(size for _, size in sizes)
    target = total / -(-total // _RUN_MAX) if total else 0
    runs: list[Run] = []
    some: list[str] = []
    filled = 0
    for name, size in sizes:
        if some and filled + size / 2 > target:
            runs.append(Run(tuple(some)))
            some, filled = [], 0
        some.append(name)
        filled += size
    if some:
        runs.append(Run(tuple(some)))
    return runs
