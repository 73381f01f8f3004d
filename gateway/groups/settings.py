"""Defines the settings of the group coordinator: Kafka's timings, and this gateway's limits on
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gateway.base.migration_policy import MigrationPolicy
from gateway.base.sizes import KIB, MIB
from gateway.groups.consumer.assignors import ASSIGNORS


class ConsumerSettings(NamedTuple):
    """The settings of one consumer group (KIP-848), which the configs of a group can change."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Kafka's keys and defaults, then limits on memory that Kafka does not have."""

    initial_rebalance_delay_ms: int = 3000  #: group.initial.rebalance.delay.ms
    min_session_timeout_ms: int = 6000  #: group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  #: group.max.session.timeout.ms
    max_size: int = 2**31 - 1  #: group.max.size, members of one group
    offset_metadata_max: int = (
        4096  #: offset.metadata.max.bytes; characters, as in Kafka in spite of the name
    )
    commit_timeout_ms: int = 5000  #: offsets.commit.timeout.ms, which the driver keeps
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000  #: offsets.retention.minutes
    retention_check_interval_ms: int = 600_000  #: offsets.retention.check.interval.ms
    #: A JoinGroup of a new member is answered after this, and the member forgotten: it may be gone,
    #: and cannot heartbeat yet (``CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS``).
    new_member_join_timeout_ms: int = 5 * 60 * 1000

    consumer_session_timeout_ms: int = 45_000  #: group.consumer.session.timeout.ms
    consumer_heartbeat_interval_ms: int = 5_000  #: group.consumer.heartbeat.interval.ms
    consumer_assignment_interval_ms: int = 1_000  #: group.consumer.assignment.interval.ms
    #: group.consumer.assignors: those that a member may ask for, the first for members that do not.
    consumer_assignors: tuple[str, ...] = tuple(ASSIGNORS)
    consumer_max_size: int = 2**31 - 1  #: group.consumer.max.size
    #: group.consumer.migration.policy
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    #: group.consumer.regex.refresh.interval.ms
    consumer_regex_refresh_interval_ms: int = 600_000

    groups_max: int = 10_000  #: groups.max, groups in all
    groups_max_per_principal: int = 2_500  #: groups.max.per.principal
    members_max: int = 10_000  #: groups.members.max, members and promised member ids in all groups
    members_max_per_principal: int = 2_500  #: groups.members.max.per.principal
    # Each of these limits members and offsets, apart from each other (bytes, about).
    bytes_max: int = 64 * MIB  #: groups.bytes.max, what all groups hold
    bytes_max_per_principal: int = 16 * MIB  #: groups.bytes.max.per.principal
    #: groups.bytes.max.per.group. Every change of a group's members writes all of them to disk, so
    #: a small request must not be able to cause a large write. (Kafka's is message.max.bytes, 1 MiB
    #: of subscriptions and assignments alone.)
    bytes_max_per_group: int = 4 * MIB
    #: groups.bytes.reserved.per.group: a group within it is not refused because of what other
    #: groups hold.
    bytes_reserved_per_group: int = 8 * KIB

    @property
    def consumer(self) -> ConsumerSettings:
        """The settings of a consumer group that has no configs of its own."""
        return ConsumerSettings(
            self.consumer_session_timeout_ms,
            self.consumer_heartbeat_interval_ms,
            self.consumer_assignment_interval_ms,
        )
