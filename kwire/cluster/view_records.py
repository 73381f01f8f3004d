"""The form of the records of the view topics, where it is not that of their entities (``kind``):
the members of a change, the headers, and the record that says that a snapshot is complete.

Servers write it and readers of this package read it. Offsets: ``view_offsets``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.cluster.field_types import ENTITY, INT32, INT64, STRING, FieldType, Nullable, Struct

#: The members of the values of ``changes``.
CHANGE: Final[Mapping[str, FieldType]] = {
    "op": STRING,
    "kind": STRING,
    "key": ENTITY,
    "before": Nullable(ENTITY),
    "after": Nullable(ENTITY),
    "source": Struct(
        {
            "cluster_id": STRING,
            "offset": INT64,
            "epoch": INT32,
            "record_type": Nullable(STRING),
            "record_version": Nullable(INT32),
            "transaction_end": Nullable(INT64),
        }
    ),
    "ts_ms": INT64,
}
#: Headers of the records: the id of the cluster; the snapshot, ``END-EPOCH``, that a record is of;
#: and the offset of the first record of a snapshot that is complete.
CLUSTER_ID_HEADER: Final = "cluster_id"
SNAPSHOT_HEADER: Final = "snapshot"
COMPLETE_HEADER: Final = "snapshot_complete"
#: The kind of the record of ``changes`` that says that a snapshot is complete.
SNAPSHOT_KIND: Final = "snapshot"
