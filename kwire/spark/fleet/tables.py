"""Knows what a job has done to its tables: makes each once, and compacts it again and again.

Each merge adds a file to the partition of a cluster, and in a state the rows that it replaces stay
in their files, marked as deleted. To read few large files costs less, so after so many merges the
partition is written anew: by ``OPTIMIZE`` of Delta, by ``rewrite_data_files`` of Iceberg. No old
version of a table is removed.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from kwire.spark.fleet.place import Place
from kwire.spark.fleet.views import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The merges into the partition of a cluster, between one compaction and the next.
MERGES: Final = 50
_THREADS: Final = 4


class Tables:
    """The tables at ``place``, as one job sees them."""

    def __init__(self, spark: SparkSession, place: Place, merges: int = MERGES) -> None:
        self.place = place
        self._spark, self._every = spark, merges
        #: A number by chance: jobs that merge once and end compact as often as others.
        self._first = random.randrange(merges)
        self._made: set[str] = set()
        self._merges: dict[str, dict[str, int]] = {}

    def make(self, view: View) -> bool:
        """Make the tables of ``view`` unless they are there, and return whether none was."""
        if view.name in self._made:
            return False
        are_new = self.place.make(self._spark, view)
        self._made.add(view.name)
        return are_new

    def merged(self, view: View, clusters: Collection[str]) -> None:
        """Count a merge of records of ``clusters`` into the tables of ``view``."""
        of_view = self._merges.setdefault(view.name, {})
        for cluster in clusters:
            of_view[cluster] = of_view.get(cluster, self._first) + 1

    def compact(self, views: Collection[View]) -> None:
        """Compact the partitions that have come to their number of merges. Raises what Spark
        raises.
        """
        due = []
        for view in views:
            of_view = self._merges.get(view.name, {})
            clusters = sorted(one for one, count in of_view.items() if count >= self._every)
            of_view.update(dict.fromkeys(clusters, 0))
            due += [self.place.compact(name, clusters) for name in view.tables if clusters]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._spark.sql, due))
