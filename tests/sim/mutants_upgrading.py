"""Bugs of the upgrade from static voters to voters in the log (KIP-853, kraft.version 0 to 1)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final

from gateway.quorum import leader_role, upgrading
from gateway.quorum.following import Following
from gateway.quorum.leader_role import LeaderRole
from gateway.quorum.node import Node
from gateway.quorum.roles import Follower, Leader
from gateway.quorum.voter_history import VoterHistory
from gateway.quorum.voter_registration import VoterRegistration
from gateway.quorum.voter_set import VoterNode, VoterSet
from tests.patches import patched
from tests.sim.mutant_registry import Mutants

Context = AbstractContextManager[Any]
MUTANTS: Final = Mutants()


@MUTANTS.register("KIP-853")
def upgrades_before_all_are_known() -> Context:
    """A voter that has not registered its directory goes into the log with the zero directory,
    which matches any.
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


@MUTANTS.register("KIP-853")
def upgrades_with_those_that_are_known() -> Context:
    """Voters that have not registered their directory are left out of the log."""

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
        registered = [node.settings.node_id, *leader.registered]
        return VoterSet.of(upgrading._row(node, leader, id) for id in registered)

    return patched(leader_role, upgraded_voters=known)


@MUTANTS.register("KIP-853")
def an_upgrade_counts_when_committed() -> Context:
    """Followers count the static voters until the upgrade is committed."""

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


@MUTANTS.register("KIP-853")
def a_truncated_upgrade_stays() -> Context:
    """A truncated upgrade stays in force: the static voters do not return."""

    def truncate_to(self: VoterHistory, offset: int) -> None:
        first = self._sets[:1], self._versions[:1]
        really(self, offset)
        if not self._sets and len(self._static):
            self._sets, self._versions = first
            self._settle()

    really = VoterHistory.truncate_to
    return patched(VoterHistory, truncate_to=truncate_to)


@MUTANTS.register("KIP-853")
def the_configuration_wins_after_a_restart() -> Context:
    """A node that restarts with static voters counts these instead of the voters in its log."""

    def init(self: VoterHistory, settings: Any, stored: Any) -> None:
        really(
            self,
            settings,
            replace(stored, voters=(), kraft_versions=()) if settings.static_voters else stored,
        )

    really = VoterHistory.__init__
    return patched(VoterHistory, __init__=init)


@MUTANTS.register("KIP-853")
def the_version_of_a_snapshot_is_not_read() -> Context:
    """The kraft.version of an installed snapshot is not read."""

    def truncate_to_snapshot(
        self: VoterHistory, id: Any, voters: VoterSet | None, kraft_version: int
    ) -> None:
        really(self, id, voters, self.kraft_version)

    really = VoterHistory.truncate_to_snapshot
    return patched(VoterHistory, truncate_to_snapshot=truncate_to_snapshot)


@MUTANTS.register("an obvious mistake")
def voters_register_with_one_leader_only() -> Context:
    """A voter that registered with one leader does not register with the next."""

    def poll(self: VoterRegistration, role: Follower) -> None:
        node: Any = self._node
        role.update_accepted = role.update_accepted or getattr(node, "_introduced", False)
        really(self, role)
        node._introduced = role.update_accepted

    really = VoterRegistration.poll
    return patched(VoterRegistration, poll=poll)


@MUTANTS.register("an obvious mistake")
def an_upgrade_is_forgotten() -> Context:
    """The records of the request are appended, but not the upgrade."""
    return patched(LeaderRole, _upgrade=lambda self, version: [])
