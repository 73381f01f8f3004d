"""Adds the ClearElrRecords that records of configuration need. It knows no request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.controller.features import has_elr
from kwire.cluster import Image
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.message import Message
from kwire.messages.clear_elr_record import ClearElrRecord
from kwire.messages.config_record import ConfigRecord

MIN_ISR: Final = "min.insync.replicas"


def clear_elr(records: Iterable[Message], image: Image) -> list[Message]:
    """Return the records that must follow ``records`` of configuration: a replica that was eligible
    under another ``min.insync.replicas`` is not any more (KIP-966).

    Without a topic's name a ClearElrRecord is for all topics
    (``ConfigurationControlManager.createClearElrRecordsAsNeeded``).
    """
    # Without ELR there is nothing to clear, and an older release could not read the record.
    if not has_elr(image):
        return []
    # A broker's default may count for any topic, so all of them are cleared.
    return [
        ClearElrRecord(
            topic_name=record.resource_name if record.resource_type == TOPIC_RESOURCE else ""
        )
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR
    ]
