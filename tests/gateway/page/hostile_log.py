"""A metadata log whose names are markup, written as a program that is no Kafka could."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kwire.message import Message
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.messages.config_record import ConfigRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.topic_record import TopicRecord
from kwire.records import Record, encode_batch, encode_metadata_record
from kwire.uuid import Uuid

#: Each would set the title of a page that takes it for markup.
NAMES: Final = (
    "<img src=x onerror=\"document.title='hit'\">",
    "</script><script>document.title='hit'</script>",
    "\"'><svg onload=document.title='hit'>",
    "${document.title='hit'}`\\u003cb\\u003e",
    "<!-- ]]> &lt;b&gt; \u202e\u2028\u0000",
    "__proto__",
    "constructor",
)


def write_hostile_log(where: Path) -> Path:
    """Write the log below ``where``; return its directory."""
    messages: list[tuple[Message, int]] = [
        (FeatureLevelRecord(name="metadata.version", feature_level=25), 0)
    ]
    for number, name in enumerate(NAMES, 1):
        topic_id = Uuid(number.to_bytes(16, "big"))
        partition = PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=[1, 2], isr=[1], leader=1
        )
        acl = AccessControlEntryRecord(
            id=topic_id, resource_type=2, resource_name=name, pattern_type=3, principal=name,
            host=name, operation=2, permission_type=3,
        )  # fmt: skip
        messages += [
            (TopicRecord(name=name, topic_id=topic_id), 0),
            (partition, 1),
            (ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value=name), 0),
            (acl, 0),
        ]
    records = [
        Record(
            offset=offset,
            timestamp=1_790_000_000_000 + 1000 * offset,
            value=encode_metadata_record(*one),
        )
        for offset, one in enumerate(messages)
    ]
    directory = where / "__cluster_metadata-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(encode_batch(records, partition_leader_epoch=1))
    return directory
