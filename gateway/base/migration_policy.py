"""Says which groups with members change their protocol (``group.consumer.migration.policy``)."""

from __future__ import annotations

import enum


class MigrationPolicy(enum.StrEnum):
    """``ConsumerGroupMigrationPolicy``: an upgrade is from the classic protocol to that of KIP-848,
    a downgrade back.
    """

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)
