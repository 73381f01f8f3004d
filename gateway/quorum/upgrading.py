"""Decides whether kraft.version can be raised from 0 to 1, and computes the voter set for it
(KIP-853).

It appends nothing: ``leader_role`` does. The same nodes vote before and after, so every majority of
the old voters is one of the new ones, provided that each is named by the directory id that it has.
Follows ``LeaderState.maybeAppendUpgradedKRaftVersion``.
"""

from __future__ import annotations

from typing import Final

from gateway.quorum.node import Node
from gateway.quorum.requests import KRAFT_VERSIONS
from gateway.quorum.roles import Leader
from gateway.quorum.voter_set import VoterNode, VoterSet
from kwire.uuid import ZERO_UUID

_FEATURE: Final = "kraft.version"


class UpgradeRefused(Exception):
    """The upgrade is not possible, now or at all; the text names the reason, and the voter."""


def upgraded_voters(node: Node, version: int) -> VoterSet | None:
    """Return the voter set to be appended by the leader ``node``; None if it is at ``version``.

    Raises UpgradeRefused.
    """
    now, leader = node.history.kraft_version, node.role
    # An upgrade that is repeated, because its response was lost, succeeds without a record.
    if version == now:
        return None
    invalid = f"Invalid upgrade of {_FEATURE} from version {now} to {version}"
    # Only the directory ids in the log tell two disks of one voter apart, so no downgrade may drop
    # them.
    if version < now:
        raise UpgradeRefused(f"{invalid} because the new version is a downgrade")
    # This log may hold an uncommitted upgrade of the previous leader, which must be settled first.
    if not isinstance(leader, Leader) or leader.high_watermark < 0:
        raise UpgradeRefused(
            f"{invalid} because this leader has committed nothing in its epoch yet; ask again"
        )
    # Seeded bugs in tests/sim: ``upgrades_before_all_are_known``,
    # ``upgrades_with_those_that_are_known``.
    reasons = [
        why for id in node.voters.nodes if (why := _why_not(node, leader, id, version)) is not None
    ]
    if reasons:
        raise UpgradeRefused(
            f"{invalid} because not all of the voters support it: {'; '.join(reasons)}"
        )
    voters = VoterSet.of(_row(node, leader, id) for id in node.voters.nodes)
    assert voters.nodes.keys() == node.voters.nodes.keys(), (
        "an upgrade adds no voters and removes none"
    )
    assert node.is_voter and voters.has(node.settings.node_id, node.settings.directory_id), (
        "the leader votes on"
    )
    return voters


def _why_not(node: Node, leader: Leader, id: int, version: int) -> str | None:
    """Return why voter ``id`` prevents the upgrade, None if it does not."""
    if id != node.settings.node_id and id not in leader.registered:
        return f"voter {id} has not told this leader yet, as every voter does in every epoch"
    row = _row(node, leader, id)
    low, high = row.kraft_versions
    if not low <= version <= high:
        return f"voter {id} supports versions {low} to {high}"
    if row.directory_id == ZERO_UUID or node.settings.listener not in row.endpoints:
        return (
            f"the directory id of voter {id} or its address at {node.settings.listener} is not "
            "known"
        )
    # Two nodes may have the same id by mistake: the one that registered, and the one that fetches
    # and would lose its vote.
    fetches_with = leader.progress[id].directory_id if id in leader.progress else row.directory_id
    # ZERO_UUID: it fetches with a version below 17, or has not fetched in this epoch.
    if fetches_with not in (row.directory_id, ZERO_UUID):
        return (
            f"voter {id} said that its directory is {row.directory_id}, and fetches for "
            f"{fetches_with}"
        )
    return None


def _row(node: Node, leader: Leader, id: int) -> VoterNode:
    """Return the entry of voter ``id``: the one that it sent in this epoch."""
    me = node.settings
    if id == me.node_id:
        return VoterNode(me.node_id, me.directory_id, dict(me.endpoints), KRAFT_VERSIONS)
    # Of this epoch alone: the voter may have been formatted again since it told another leader.
    return leader.registered[id]
