"""Lists the views that become tables, with the columns of each. Pure: it imports no Spark.

Keys and types are those of the kinds of entities, from which servers write the records of the views
and publish their schemas (``kwire views --schema VIEW --spark``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kwire.cluster.entities import KINDS
from kwire.cluster.field_types import FieldType
from kwire.cluster.spark_types import spark_type
from kwire.cluster.view_records import CHANGE
from kwire.protocol import CLUSTER_METADATA_TOPIC

CHANGES: Final = "changes"
#: First column of every table, in each key, and the column that the tables are partitioned by.
CLUSTER_ID: Final = ("cluster_id", "STRING", "Kafka's id of the cluster")
#: The columns behind those of a view's key and value.
ORIGINS: Final = (
    (
        "generation",
        "INT",
        "0 for the first log of the cluster, and one more for each log that began anew",
    ),
    ("offset", "BIGINT", "Offset in the view; offset >> 24 is the one in __cluster_metadata"),
    ("timestamp", "TIMESTAMP", "Time of the record in __cluster_metadata"),
    ("deleted", "BOOLEAN", "True where the entity is gone"),
    (
        "origin",
        "STRING",
        "change: a record of the log; snapshot: an entity of the snapshot that the log began with;"
        " gap: gone in a part of the log that was not read",
    ),
)


@dataclass(frozen=True)
class View:
    """A view topic. ``keys`` and ``values`` name columns with their types; ``values`` are without
    the keys. Of ``changes`` there is no state, and its keys are the whole key as text.
    """

    name: str
    keys: Mapping[str, FieldType]
    values: Mapping[str, FieldType]
    about: str

    @property
    def topic(self) -> str:
        return f"{CLUSTER_METADATA_TOPIC}.{self.name}"

    @property
    def has_state(self) -> bool:
        """False for ``changes``, whose records are no entities."""
        return self.name != CHANGES

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables: the history, then the state."""
        history = f"{self.name}_history"
        return (history, f"{self.name}_state") if self.has_state else (history,)

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Every column with its type in Spark's DDL, in the order of the tables."""
        of_view = {**self.keys, **self.values}.items()
        return (
            CLUSTER_ID[:2],
            *((name, spark_type(one)) for name, one in of_view),
            *((name, type_) for name, type_, _ in ORIGINS),
        )

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that name an entity among those of all clusters."""
        return (CLUSTER_ID[0], *self.keys)


def _entity_views() -> dict[str, View]:
    found = {}
    for kind in KINDS:
        if kind.view is not None:
            keys = {name: kind.types[name] for name in kind.key_fields}
            values = {name: one for name, one in kind.types.items() if name not in keys}
            found[kind.view] = View(kind.view, keys, values, f"{kind.view} of Kafka clusters")
    return found


#: Every view by its name.
VIEWS: Final[Mapping[str, View]] = MappingProxyType(
    {
        **_entity_views(),
        CHANGES: View(CHANGES, {}, CHANGE, "changes of the entities of Kafka clusters"),
    }
)
