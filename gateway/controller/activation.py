"""Makes the records that a new active controller writes first (``ActivationRecordsGenerator``).

The first controller of a cluster writes the bootstrap records: the levels of features, and what
else formatting left for it, such as SCRAM users (KIP-900). Whether they are committed is read from
the image, not from a flag: if a leader loses its epoch before they are, the log has none, and the
next leader writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.controller.features import default_features
from gateway.controller.records import Operation, operation
from gateway.controller.settings import ControllerSettings
from kwire.cluster import Image
from kwire.cluster.image import BROKER_RESOURCE, METADATA_VERSION
from kwire.message import Message
from kwire.messages.abort_transaction_record import AbortTransactionRecord
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.config_record import ConfigRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.protocol.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kwire.protocol.metadata_version import is_metadata_transaction_supported

#: The name of the transaction around the bootstrap records, as Kafka has it.
BOOTSTRAP: Final = "Bootstrap records"


def activation(
    image: Image, settings: ControllerSettings, *, transaction_open: bool
) -> list[Operation]:
    """Return the operations to append, in order; none if the log needs none.

    ``transaction_open``: a leader failed inside a metadata transaction (KIP-868), which is aborted.
    """
    operations = []
    if transaction_open:
        abort = AbortTransactionRecord(reason="aborting partially complete metadata transaction")
        # Before anything else: records of this leader inside the old transaction would be dropped
        # with it.
        operations.append(operation("abort", [abort], image.metadata_version))
    # Also after the abort: the records of an aborted bootstrap transaction were never applied. A
    # controller of Kafka 4.3 does not start again on such a log.
    if not image.metadata_version:
        level = settings.metadata_version
        operations.append(operation("bootstrap", _bootstrap(settings, level), level))
    return operations


def _bootstrap(settings: ControllerSettings, level: int) -> Iterator[Message]:
    # Without transactions one batch keeps the records together (ActivationRecordsGenerator).
    if is_metadata_transaction_supported(level):
        yield BeginTransactionRecord(name=BOOTSTRAP)
    # First: the level decides at which version all records after it are read.
    yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)
    features = default_features(level) if settings.features is None else settings.features
    assert METADATA_VERSION not in features, "metadata.version is written once, and first"
    for name, feature_level in features.items():
        # Level 0 is the state without a record.
        if feature_level:
            yield FeatureLevelRecord(name=name, feature_level=feature_level)
    yield from settings.bootstrap_records
    if features.get(ELIGIBLE_LEADER_REPLICAS_VERSION):
        # The controller and all brokers must agree on which replicas are eligible, so the value
        # that decides it is in the log from the beginning (KIP-966).
        yield ConfigRecord(
            resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="1"
        )
    if is_metadata_transaction_supported(level):
        yield EndTransactionRecord()
