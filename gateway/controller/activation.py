"""What a new active controller writes before anything else (``ActivationRecordsGenerator``): the
first one the features.

Whether the cluster was begun is read from the image and not from a flag: a leader that lost its
epoch before its bootstrap records were committed leaves none, and whoever is next writes them.
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

#: The name of the transaction that a cluster begins with, as Kafka has it.
BOOTSTRAP: Final = "Bootstrap records"


def activation(
    image: Image, settings: ControllerSettings, *, transaction_open: bool
) -> list[Operation]:
    """The operations to append, in order; none where the log is in order.

    ``transaction_open``: a dead leader left a metadata transaction without its end; it is aborted.
    Kafka 4.3 does not come up again when that was the one with the bootstrap records, as they are
    gone then; here they are written once more.
    """
    operations = []
    if transaction_open:
        abort = AbortTransactionRecord(reason="aborting partially complete metadata transaction")
        operations.append(operation("abort", [abort], image.metadata_version))
    if not image.metadata_version:
        level = settings.metadata_version
        operations.append(operation("bootstrap", _bootstrap(settings, level), level))
    return operations


def _bootstrap(settings: ControllerSettings, level: int) -> Iterator[Message]:
    if is_metadata_transaction_supported(level):
        yield BeginTransactionRecord(name=BOOTSTRAP)
    yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)
    features = default_features(level) if settings.features is None else settings.features
    for name, feature_level in features.items():
        if feature_level:
            yield FeatureLevelRecord(name=name, feature_level=feature_level)
    if features.get(ELIGIBLE_LEADER_REPLICAS_VERSION):
        # KIP-966: what makes a replica eligible must be the same for all, so it stands in the log
        # from the beginning.
        yield ConfigRecord(
            resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="1"
        )
    if is_metadata_transaction_supported(level):
        yield EndTransactionRecord()
