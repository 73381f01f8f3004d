"""Bugs of the way from voters of the configuration to voters in the log (KIP-853, kraft.version 0
to 1).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from gateway.quorum import leader_role, upgrading
from gateway.quorum.following import Following
from gateway.quorum.leader_role import LeaderRole
from gateway.quorum.node import Node
from gateway.quorum.roles import Follower, Leader
from gateway.quorum.voter_history import VoterHistory
from gateway.quorum.voter_registration import VoterRegistration
from gateway.quorum.voter_set import VoterNode, VoterSet
from tests.sim.mutants import mutant, patched

Context = AbstractContextManager[Any]


@mutant("KIP-853")
def upgrades_before_all_are_known() -> Context:
    """Of a voter that has not told its directory the configuration's row goes into the log, which
    means any directory.
    """

    def row(node: Node, leader: Leader, id: int) -> VoterNode:
        known = id == node.settings.node_id or id in leader.registered
        return (
            really(node, leader, id)
            if known
            else replace(node.voters.nodes[id], kraft_versions=(0, 1))
        )

    really = upgrading._row
    return patched(upgrading, _row=row, _why_not=lambda node, leader, id, version: None)


@mutant("KIP-853")
def upgrades_with_those_that_are_known() -> Context:
    """Voters that have not told their directory yet are left out of the log: they are few, and can
    be added.
    """

    def known(node: Node, version: int) -> VoterSet | None:
        leader = node.role
        if version <= node.history.kraft_version:
            return None
        if (
            not isinstance(leader, Leader)
            or leader.high_watermark < 0
            or len(leader.registered) + 1 < node.voters.majority
        ):
            raise upgrading.UpgradeRefused("not now")
        told = [node.settings.node_id, *leader.registered]
        return VoterSet.of(upgrading._row(node, leader, id) for id in told)

    return patched(leader_role, upgraded_voters=known)


@mutant("KIP-853")
def an_upgrade_counts_when_committed() -> Context:
    """Followers count the voters of the configuration until the upgrade is committed."""

    def append(self: Following, given: Any) -> None:
        node: Any = self._node
        was = node.history.kraft_version
        sets, versions = list(node.history._sets), list(node.history._versions)
        really(self, given)
        if was < 1 <= node.history.kraft_version:
            node._pending = node.log.end_offset, node.history._sets, node.history._versions
            node.history._sets, node.history._versions = sets, versions
            node.history._settle()

    def advance(self: Following, role: Follower) -> None:
        rises(self, role)
        node: Any = self._node
        pending = getattr(node, "_pending", None)
        if pending is not None and node.high_watermark >= pending[0]:
            _, node.history._sets, node.history._versions = pending
            node._pending = None
            node.history._settle()

    really, rises = Following._append, Following.advance
    return patched(Following, _append=append, advance=advance)


@mutant("KIP-853")
def a_truncated_upgrade_stays() -> Context:
    """A log that once said who votes says so for ever: what the configuration says is not looked at
    again.
    """

    def truncate_to(self: VoterHistory, offset: int) -> None:
        first = self._sets[:1], self._versions[:1]
        really(self, offset)
        if not self._sets and len(self._static):
            self._sets, self._versions = first
            self._settle()

    really = VoterHistory.truncate_to
    return patched(VoterHistory, truncate_to=truncate_to)


@mutant("KIP-853")
def the_configuration_wins_after_a_restart() -> Context:
    """A node that comes back with voters in its configuration counts those, whatever its log
    says.
    """

    def init(self: VoterHistory, settings: Any, stored: Any) -> None:
        really(
            self,
            settings,
            replace(stored, voters=(), kraft_versions=()) if settings.static_voters else stored,
        )

    really = VoterHistory.__init__
    return patched(VoterHistory, __init__=init)


@mutant("KIP-853")
def the_version_of_a_snapshot_is_not_read() -> Context:
    """After a snapshot kraft.version is what it was before."""

    def truncate_to_snapshot(
        self: VoterHistory, id: Any, voters: VoterSet | None, kraft_version: int
    ) -> None:
        really(self, id, voters, self.kraft_version)

    really = VoterHistory.truncate_to_snapshot
    return patched(VoterHistory, truncate_to_snapshot=truncate_to_snapshot)


@mutant("a mistake that lies near")
def voters_tell_what_they_are_only_once() -> Context:
    """A voter that told a leader what it is does not tell the next one."""

    def poll(self: VoterRegistration, role: Follower) -> None:
        node: Any = self._node
        role.update_accepted = role.update_accepted or getattr(node, "_introduced", False)
        really(self, role)
        node._introduced = role.update_accepted

    really = VoterRegistration.poll
    return patched(VoterRegistration, poll=poll)


@mutant("a mistake that lies near")
def an_upgrade_is_forgotten() -> Context:
    """The records that were asked for are appended, and the upgrade is forgotten."""
    return patched(LeaderRole, _upgrade=lambda self, version: [])
