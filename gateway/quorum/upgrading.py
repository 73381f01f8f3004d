"""From voters of the configuration to voters in the log: kraft.version from 0 to 1 (KIP-853). Says
whether that can be, and who votes then; appends nothing.

Kafka's ``LeaderState.maybeAppendUpgradedKRaftVersion``. The same nodes vote afterwards: every
majority of the old voters is one of the new ones, provided that each is named by the directory that
it really has.
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
    """Not now, or never; the text says why, and which voter it is for."""


def upgraded_voters(node: Node, version: int) -> VoterSet | None:
    """Who is to vote in the log of the leader ``node`` at ``version``; None where it is at that
    version already.

    Raises UpgradeRefused.
    """
    now, leader = node.history.kraft_version, node.role
    if version == now:
        return None
    invalid = f"Invalid upgrade of {_FEATURE} from version {now} to {version}"
    if version < now:
        raise UpgradeRefused(f"{invalid} because the new version is a downgrade")
    if not isinstance(leader, Leader) or leader.high_watermark < 0:
        raise UpgradeRefused(
            f"{invalid} because this leader has committed nothing in its epoch yet; ask again"
        )
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
    """What speaks against the voter ``id``."""
    if id != node.settings.node_id and id not in leader.registered:
        return f"voter {id} has not told this leader yet, as every voter does in every epoch"
    row = _row(node, leader, id)
    low, high = row.kraft_versions
    if not low <= version <= high:
        return f"voter {id} supports versions {low} to {high}"
    if row.directory_id == ZERO_UUID or node.settings.listener not in row.endpoints:
        return f"the directory id of voter {id} or its address at {node.settings.listener} is not known"
    fetches_with = leader.progress[id].directory_id if id in leader.progress else row.directory_id
    if fetches_with not in (row.directory_id, ZERO_UUID):
        return f"voter {id} said that its directory is {row.directory_id}, and fetches for {fetches_with}"
    return None


def _row(node: Node, leader: Leader, id: int) -> VoterNode:
    """What is to be in the log of the voter ``id``: what it said of itself in this epoch."""
    me = node.settings
    if id == me.node_id:
        return VoterNode(me.node_id, me.directory_id, dict(me.endpoints), KRAFT_VERSIONS)
    return leader.registered[id]
