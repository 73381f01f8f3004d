"""Brings the fleet's tables and Kafka's image into one form, so that tests can compare them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kwire.cluster import Loader
from kwire.cluster.entities import KINDS
from kwire.cluster.image import Image
from kwire.cluster.view_offsets import at
from kwire.metadata_log.read import image
from kwire.metadata_log.reader import read_log_file
from kwire.records import decode_metadata_record
from kwire.spark.fleet.views import CLUSTER_ID, VIEWS
from tools.fleet_rows import rows_of, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = dict[tuple[Any, ...], dict[str, Any]]
ENTITIES: Final = tuple(name for name, view in VIEWS.items() if view.has_state)
_PARTITION: Final = "__cluster_metadata-0"


def cluster_of(directory: Path) -> str:
    [line] = [
        line
        for line in (directory / "meta.properties").read_text().splitlines()
        if line.startswith("cluster.id=")
    ]
    return line.partition("=")[2]


#: The row of a state, by the id of its record, which is kept so that no other one gets that id.
Seen = dict[int, tuple[Any, tuple[Any, ...], dict[str, Any]]]


def truth(of: Image, view: str, seen: Seen | None = None) -> Rows:
    """The entities of a view in Kafka's image, as ``kwire state`` folds it.

    ``seen`` remembers partitions between calls on one image, nearly all of which are the same at
    two offsets: a record in an image is never changed, but replaced.
    """
    [kind] = [kind for kind in KINDS if kind.view == view]
    found: Rows = {}
    for key in kind.keys(of):
        record = of.partitions[key[0]][key[1]] if seen is not None else None
        if seen is not None and id(record) in seen:
            _, name, fields = seen[id(record)]
        else:
            state = kind.find(of, key)
            assert state is not None
            name, fields = tuple(kind.name(state)), kind.fields(state)
            if seen is not None:
                seen[id(record)] = record, name, fields
        found[name] = fields
    return found


def entities(of: Image) -> dict[str, Rows]:
    """The entities of every view in Kafka's image."""
    return {view: truth(of, view) for view in ENTITIES}


class Truth:
    """The log of a directory, folded to the images at chosen offsets."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.cluster_id = directory, cluster_of(directory)
        of_log = directory / _PARTITION
        self._segments = sorted(of_log.glob("*.log"))
        begin = int(self._segments[0].stem)
        ends = sorted(int(one.name[:20]) for one in of_log.glob("*-*.checkpoint"))
        #: Where the views begin: a log that does not begin at 0 has a snapshot before it.
        self.begin = 0 if begin == 0 else next(end for end in ends if end >= begin)

    def chosen_ends(self, choose: random.Random, count: int) -> list[int]:
        """The ends of ``count`` batches, or of all where there are fewer, in order."""
        found = [header.last_offset + 1 for header, _ in self._batches()]
        ends = [end for end in found if end > self.begin]
        return sorted(choose.sample(ends, min(count, len(ends))))

    def at(self, ends: Sequence[int]) -> Iterator[tuple[int, dict[str, Rows]]]:
        """Each of ``ends``, which are in order, with the entities of every view before it."""
        loader = Loader(image(self.directory, at=self.begin) if self.begin else None)
        seen: Seen = {}
        wanted = iter(ends)
        end = next(wanted)
        for header, records in self._batches():
            for record in records:
                if record.offset >= self.begin and not header.is_control:
                    message = decode_metadata_record(record.value or b"")[2]
                    loader.load(message, record.offset, header.partition_leader_epoch)
            if header.last_offset + 1 == end:
                yield (
                    end,
                    {
                        view: truth(loader.image, view, seen if view == "partitions" else None)
                        for view in ENTITIES
                    },
                )
                if (following := next(wanted, None)) is None:
                    return
                end = following

    def _batches(self) -> Iterator[Any]:
        for segment in self._segments:
            yield from read_log_file(segment)


def rows(spark: SparkSession, query: str, view: str) -> Rows:
    """The entities of one cluster that ``query`` finds."""
    found: Rows = {}
    for row in spark.sql(query).collect():
        key, fields = _entity(row.asDict(recursive=True), view)
        assert key not in found, f"{view} has {key} twice"
        found[key] = fields
    return found


def by_cluster(spark: SparkSession, view: str) -> dict[str, Rows]:
    """The present entities of every cluster, by the view that is registered."""
    return _by_cluster((row.asDict(recursive=True) for row in spark.table(view).collect()), view)


def in_files(where: Path, view: str, format: str) -> dict[str, Rows]:
    """The present entities of every cluster, by the files of the state: a query of Spark would
    take a hundred times the processor time.
    """
    types = {**VIEWS[view].keys, **VIEWS[view].values}
    present = (
        {CLUSTER_ID[0]: row[CLUSTER_ID[0]]}
        | {name: shown(row[name], types[name]) for name in types}
        for row in rows_of(where, VIEWS[view].tables[1], format)
        if not row["deleted"]
    )
    return _by_cluster(present, view)


def _by_cluster(rows_of_view: Iterable[Mapping[str, Any]], view: str) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for row in rows_of_view:
        key, fields = _entity(row, view)
        of_cluster = found.setdefault(row[CLUSTER_ID[0]], {})
        assert key not in of_cluster, f"{view} has {key} twice"
        of_cluster[key] = fields
    return found


class Versions:
    """All versions of the entities of a view, read once, and gone through by offset."""

    def __init__(self, spark: SparkSession, view: str) -> None:
        found: dict[str, list[Any]] = {}
        for row in spark.table(f"{view}_versions").collect():
            version = (
                row.valid_from_offset,
                row.valid_to_offset,
                *_entity(row.asDict(recursive=True), view),
            )
            found.setdefault(row.cluster_id, []).append(version)
        self._of = {cluster: _Sweep(view, versions) for cluster, versions in found.items()}

    def agree(self, cluster: str, offset: int, then: Rows) -> bool:
        """True if the entities of ``cluster`` before ``offset`` of the view are ``then``. The
        offset is behind that of the call before.
        """
        versions = self._of.get(cluster)
        return not then if versions is None else versions.agree(offset, then)


def differences(
    spark: SparkSession, logs: Iterable[Truth], ends: Mapping[str, Sequence[int]]
) -> Iterator[tuple[Path, int, str]]:
    """Yield each log, offset and view where the history is not the image. ``ends`` has the offsets
    of each cluster.
    """
    histories = {view: Versions(spark, view) for view in ENTITIES}
    for log in logs:
        for end, then in log.at(ends[log.cluster_id]):
            for view in ENTITIES:
                if not histories[view].agree(log.cluster_id, at(end), then[view]):
                    yield log.directory, end, view


class _Sweep:
    """The versions of one cluster, of which those at one offset are at hand."""

    def __init__(self, view: str, versions: list[Any]) -> None:
        self._view = view
        self._coming = sorted(versions, key=lambda one: one[0], reverse=True)
        self._now: Rows = {}
        self._ends: dict[tuple[Any, ...], int | None] = {}
        self._ending: list[tuple[int, int, tuple[Any, ...]]] = []
        self._number = count()

    def agree(self, offset: int, then: Rows) -> bool:
        while self._coming and self._coming[-1][0] < offset:
            began, ended, key, fields = self._coming.pop()
            before = self._ends.get(key, began)
            assert before is not None and before <= began, (
                f"{self._view} has {key} twice at {began}"
            )
            self._now[key], self._ends[key] = fields, ended
            if ended is not None:
                heappush(self._ending, (ended, next(self._number), key))
        while self._ending and self._ending[0][0] < offset:
            ended, _, key = heappop(self._ending)
            if self._ends.get(key) == ended:
                del self._now[key], self._ends[key]
        if self._now != then:
            return False
        # An entity that stays is one object with its truth from now on, and compared no more.
        self._now.update(then)
        return True


def _entity(fields: Mapping[str, Any], view: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The key of a row, and its fields that are the view's."""
    names = (*VIEWS[view].keys, *VIEWS[view].values)
    return tuple(fields[name] for name in VIEWS[view].keys), {name: fields[name] for name in names}
