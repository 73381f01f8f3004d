"""The names of the tables, the columns that tell their rows apart, and all their columns, with any
format.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.spark.table.arrow import SINCE, UNTIL, table_columns
from kwire.spark.table.kinds import KINDS

#: The tables to which rows are only added.
APPENDED: Final = ("changes", "errors", "load")
NAMES: Final = (*APPENDED, *(kind.table for kind in KINDS))
#: The columns that tell an entity from the others of its kind.
KEYS: Final = {
    "feature": ("name",),
    "topic": ("topicId",),
    "partition": ("topicId", "partition"),
    "config": ("resourceType", "resourceName", "name"),
    "broker": ("id",),
    "controller": ("id",),
    "acl": ("id",),
    "quota": ("entity", "name"),
    "user": ("name", "mechanism"),
    "token": ("tokenId",),
    "producer_ids": (),
}


def columns_of(name: str) -> dict[str, Any]:
    """The columns of a table; those of a kind with their validity."""
    return table_columns(name) if name in APPENDED else {**table_columns(name), **SINCE, **UNTIL}
