"""Lists the kinds of entities of a cluster, and the types of metadata records.

A new type of record is a row of its kind's descriptor, or of ``_MARKERS`` where it changes no
entity.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.cluster.entities import nodes, partitions, security, settings, topics
from kwire.cluster.image import Image
from kwire.cluster.kind import RecordType
from kwire.messages.abort_transaction_record import AbortTransactionRecord
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.zk_migration_state_record import ZkMigrationStateRecord

#: In the order of a snapshot, of records and of the entities in views.
KINDS: Final = (
    settings.FEATURE,
    nodes.BROKER,
    nodes.CONTROLLER,
    topics.KIND,
    partitions.KIND,
    settings.CONFIG,
    settings.QUOTA,
    settings.PRODUCER_IDS,
    security.ACL,
    security.USER,
    security.TOKEN,
)
BY_KIND: Final = {kind.kind: kind for kind in KINDS}


def _nothing(image: Image, record: Any) -> None:
    pass


#: Records that mark transactions, and those that matter only in a migration or to an idle log.
_MARKERS: Final = (
    RecordType(BeginTransactionRecord, "transaction", _nothing),
    RecordType(EndTransactionRecord, "transaction", _nothing),
    RecordType(AbortTransactionRecord, "transaction", _nothing),
    RecordType(NoOpRecord, "no_op", _nothing),
    RecordType(ZkMigrationStateRecord, "zk_migration", _nothing),
)
#: Every type of metadata record.
RECORD_TYPES: Final = (*(one for kind in KINDS for one in kind.records), *_MARKERS)
