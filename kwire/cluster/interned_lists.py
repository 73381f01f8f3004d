"""Lets the partitions of an image share equal lists, so that each takes a third of the memory.

A partition has up to seven lists, and the partitions of a cluster have few different ones: as many
as there are sets of replicas. The lists of a record in an image are therefore never changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kwire.message import bare
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.uuid import Uuid

#: Different lists, and different ids, that are kept. With more of them some equal ones are separate
#: objects.
_KEPT: Final = 32_768


_new_partition = bare(PartitionRecord)
_new_change = bare(PartitionChangeRecord)


def copy_partition(before: PartitionRecord) -> PartitionRecord:
    """A record with the same values. The lists of a record in an image are never changed, so both
    share them: most records of a busy log are copied here, and ``copy`` takes ten times as long.
    """
    after = _new_partition()
    after.partition_id = before.partition_id
    after.topic_id = before.topic_id
    after.replicas = before.replicas
    after.isr = before.isr
    after.removing_replicas = before.removing_replicas
    after.adding_replicas = before.adding_replicas
    after.leader = before.leader
    after.leader_recovery_state = before.leader_recovery_state
    after.leader_epoch = before.leader_epoch
    after.partition_epoch = before.partition_epoch
    after.directories = before.directories
    after.eligible_leader_replicas = before.eligible_leader_replicas
    after.last_known_elr = before.last_known_elr
    after.unknown_tags = before.unknown_tags
    return after


def copy_partition_change(before: PartitionChangeRecord) -> PartitionChangeRecord:
    """As :func:`copy_partition`, of a change."""
    after = _new_change()
    after.partition_id = before.partition_id
    after.topic_id = before.topic_id
    after.isr = before.isr
    after.leader = before.leader
    after.replicas = before.replicas
    after.removing_replicas = before.removing_replicas
    after.adding_replicas = before.adding_replicas
    after.leader_recovery_state = before.leader_recovery_state
    after.directories = before.directories
    after.eligible_leader_replicas = before.eligible_leader_replicas
    after.last_known_elr = before.last_known_elr
    after.unknown_tags = before.unknown_tags
    return after


def share(record: PartitionRecord) -> None:
    """Replace the lists of ``record`` by equal ones that other records have."""
    record.replicas = shared_numbers(record.replicas)
    record.isr = shared_numbers(record.isr)
    record.removing_replicas = shared_numbers(record.removing_replicas)
    record.adding_replicas = shared_numbers(record.adding_replicas)
    record.directories = shared_ids(record.directories)


def shared_numbers(values: Iterable[int]) -> list[int]:
    """Return a list of ``values``, which is not to be changed."""
    return _numbers(tuple(values))


def shared_ids(values: Iterable[Uuid]) -> list[Uuid]:
    """Return a list of ``values``, which is not to be changed."""
    return _ids(tuple(values))


@lru_cache(_KEPT)
def _numbers(values: tuple[int, ...]) -> list[int]:
    return list(values)


@lru_cache(_KEPT)
def _ids(values: tuple[Uuid, ...]) -> list[Uuid]:
    return [_id(one) for one in values]


@lru_cache(_KEPT)
def _id(value: Uuid) -> Uuid:
    return value
