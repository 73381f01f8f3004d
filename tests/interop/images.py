"""Folds a metadata log into a form in which two clusters can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kwire.cluster import Image, Loader
from kwire.metadata_log.reader import read_log_file
from kwire.records import decode_metadata_record


def image_of(log_dir: Path) -> Image:
    """Of all that is in the log's files."""
    loader = Loader()
    for path in sorted(log_dir.glob("*.log")):
        for header, records in read_log_file(path):
            if not header.is_control:
                for offset, record in enumerate(records, header.base_offset):
                    assert record.value is not None, "a metadata record without a value"
                    loader.load(
                        decode_metadata_record(record.value)[2],
                        offset,
                        header.partition_leader_epoch,
                    )
    return loader.image


def told(image: Image) -> dict[str, Any]:
    """Partitions and brokers as any two clusters can have them."""
    found: dict[str, Any] = {}
    for topic_id, name in image.topics.items():
        for index, one in image.partitions[topic_id].items():
            fields = {
                slot: getattr(one, slot)
                for slot in one.__slots__
                if slot not in ("topic_id", "unknown_tags")
            }
            fields["eligible_leader_replicas"] = sorted(one.eligible_leader_replicas or ())
            found[f"{name}-{index}"] = fields
    for broker_id, broker in image.brokers.items():
        found[f"broker {broker_id}"] = (
            broker.fenced,
            broker.in_controlled_shutdown,
            broker.log_dirs,
            broker.cordoned_log_dirs,
        )
    return found
