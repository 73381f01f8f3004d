"""Following a leader: Fetch and FetchSnapshot of voters and observers, and what the answers do to
the log.

Kafka's ``pollFollower``, ``handleFetchResponse``, ``handleFetchSnapshotResponse`` (KIP-595, 630).
One implementation for a voter, for an observer of this quorum, and for the gateway that observes a
quorum of other controllers (``settings.observer``); the last one adds two steps, ``handshake`` and
``log_history``. A response that no leader sends costs a pause and nothing else; only one that would
undo committed records stops the node.
"""

from __future__ import annotations

import contextlib
import math
from functools import partial
from typing import Any, Final

from gateway.address import Address
from gateway.quorum import batches, error_messages, fetching, requests, response_checks
from gateway.quorum.divergence import truncation_offset
from gateway.quorum.download import Download
from gateway.quorum.effects import AbandonSnapshot, Advance, BeginSnapshot, Failure, InstallSnapshot
from gateway.quorum.errors import error_name
from gateway.quorum.events import Installed, NotInstalled
from gateway.quorum.handshake import Handshake
from gateway.quorum.leader_discovery import LeaderDiscovery
from gateway.quorum.log_history import LogHistory
from gateway.quorum.node import Node
from gateway.quorum.partition import Position
from gateway.quorum.requests import KRAFT_VERSIONS
from gateway.quorum.response_checks import InvalidResponse
from gateway.quorum.roles import Follower
from gateway.snapshot_id import SnapshotId
from kwire.messages.fetch_response import PartitionData
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse

#: An answer without news is fruitless when it came before this part of the time that the leader may
#: wait for some.
_EARLY: Final = 0.5


class Following:
    """The part of a node that copies a leader's log."""

    def __init__(self, node: Node, discovery: LeaderDiscovery) -> None:
        self._node = node
        self._discovery = discovery
        self._handshake = Handshake(node)
        self._history = LogHistory()
        self._recorded_voters: frozenset[int] | None = (
            None  # of the newest record about them in the log
        )
        discovery.on_found = self._on_leader_found

    # --- asking the leader ---

    def poll(self, role: Follower) -> None:
        """Fetch what comes next, unless the disk or a response is being waited for."""
        node = self._node
        if node.settings.observer is not None and node.now >= node.retry.not_before:
            self._handshake.poll(role)
        if node.installing is None and node.now >= node.retry.not_before:
            address = role.endpoints[node.settings.listener]
            if node.now >= node.peers.ready_at(address):
                self._ask_leader(role, address)
        if node.now >= role.fetch_until and not node.may_campaign:
            # a node that may not be elected cannot make a new leader, only find one
            self._discovery.poll()

    def deadline(self, role: Follower) -> float:
        """When :meth:`poll` has something to do next."""
        node = self._node
        if node.installing is not None:
            return math.inf
        asks_at = max(
            node.peers.ready_at(role.endpoints[node.settings.listener]), node.retry.not_before
        )
        if node.now < role.fetch_until or node.may_campaign:
            return min(asks_at, role.fetch_until)
        return min(asks_at, self._discovery.deadline())

    def _ask_leader(self, role: Follower, address: Address) -> None:
        node = self._node
        settings, download = node.settings, role.download
        on_failed = (
            partial(self._on_failed, role, address) if settings.observer is not None else None
        )
        if download is None:
            below = self._history.below
            fetching.fetch(
                node,
                address,
                role.leader_id,
                partial(self._on_fetch_answer, role, address, below),
                max_wait_ms=settings.fetch_max_wait_ms,
                high_watermark=role.leader_high_watermark,
                position=self._history.position(node.log),
                on_failed=on_failed,
            )
            return
        request = partial(
            requests.fetch_snapshot,
            cluster_id=node.cluster_id,
            replica=node.replica,
            epoch=node.epoch,
            id=download.id,
            position=download.position,
            max_bytes=settings.snapshot_max_bytes,
        )
        node.ask(
            address,
            role.leader_id,
            FetchSnapshotRequest.API_KEY,
            requests.FETCH_SNAPSHOT_VERSIONS,
            request,
            partial(self._on_snapshot_answer, role, address, download),
            after=node.state_token,
            on_failed=on_failed,
        )

    def _on_failed(self, role: Follower, address: Address, failure: Failure) -> None:
        fetching.failed(self._node, address, failure)
        self._suspect_leader(role)

    def _suspect_leader(self, role: Follower) -> None:
        """The leader was of no help: an observer looks for another one at once, and goes on asking
        this one.

        A voter waits for its fetch timeout before it stands for election, so that one lost response
        makes no epoch. An observer disturbs nobody by asking the others.
        """
        self._history.below = None
        if self._node.settings.observer is not None and self._node.role is role:
            role.fetch_until = min(role.fetch_until, self._node.now)

    # --- the leader's responses ---

    def _on_fetch_answer(
        self,
        role: Follower,
        address: Address,
        below: SnapshotId | None,
        asked: Position,
        sent_at: float,
        message: Any,
        version: int,
    ) -> bool | None:
        """True when it brought something, or came late enough that the next may be asked at once.

        Whoever lost a pre-vote meanwhile follows the same leader anew, and may do so more often
        than that answers: what the leader says in the epoch that there is, of the log as it is,
        counts all the same.
        """
        node, sender = self._node, f"leader {role.leader_id} ({address})"
        follower = node.role
        late = not isinstance(follower, Follower) or follower.leader_id != role.leader_id
        partition = fetching.only_partition(node, address, sender, message)
        usable = partition is not None and fetching.handle_leader_and_epoch(
            node, sender, partition, message
        )
        if late:
            return None
        if (
            partition is None
            or not usable
            or node.role is not follower
            or not isinstance(follower, Follower)
        ):
            if isinstance(follower, Follower):
                self._suspect_leader(follower)
            return False
        return self._handle_partition(follower, partition, below, asked, sent_at, sender)

    def _on_leader_found(
        self,
        role: Follower,
        address: Address,
        asked: Position,
        sent_at: float,
        partition: PartitionData,
    ) -> bool | None:
        """The response in which discovery found the leader is used like any other of that
        leader.
        """
        return self._handle_partition(
            role, partition, None, asked, sent_at, f"leader {role.leader_id} ({address})"
        )

    def _handle_partition(
        self,
        follower: Follower,
        partition: PartitionData,
        below: SnapshotId | None,
        asked: Position,
        sent_at: float,
        sender: str,
    ) -> bool:
        """An error-free response of the leader, to a Fetch at the log's end of that time. Was it of
        any use?
        """
        node = self._node
        if node.log.end != asked or node.installing is not None or follower.download is not None:
            return False
        before = self._reached(follower)
        try:
            news = self._take(follower, partition, below, sender)
        except InvalidResponse as problem:
            node.protocol_violation(sender, str(problem))
            node.back_off()
            self._suspect_leader(follower)
            return False
        if node.settings.observer is not None:
            news = self._reached(follower) != before  # whatever else it says may be made up
        if node.stopped:
            return False
        self._leader_answered(follower)
        if news or node.now - sent_at >= _EARLY * node.settings.fetch_max_wait_ms / 1000.0:
            node.progressed()
            return True
        node.back_off()
        return False

    def _reached(self, role: Follower) -> tuple[int, int, int, int]:
        """What progress is measured by: the log, and how much of it the leader calls committed."""
        log = self._node.log
        committed = max(self._node.high_watermark, min(role.leader_high_watermark, log.end_offset))
        return log.start_offset, log.end_offset, log.last_epoch, committed

    def _leader_answered(self, role: Follower) -> None:
        """The leader works: this node stays with it, and does not vote for others meanwhile."""
        role.fetched, role.ended, role.successor = True, False, False
        role.fetch_until = self._node.now + role.timeout_s
        self._node.leader_answered_at = self._node.now
        self._discovery.found()

    def _take(
        self, role: Follower, partition: PartitionData, below: SnapshotId | None, sender: str
    ) -> bool:
        """What an error-free response brings: was there anything new? Raises InvalidResponse."""
        node = self._node
        snapshot_id = response_checks.given_snapshot(partition, node.epoch)
        diverging = response_checks.given_divergence(partition)
        if below is not None:
            return self._take_history(role, partition, below, snapshot_id, diverging, sender)
        if diverging is not None:
            self._truncate_diverged(diverging, sender)
            return True
        if snapshot_id is not None:
            self._on_snapshot_offered(role, snapshot_id, partition, sender)
            return True
        given = response_checks.given_batches(partition, node.log.end, node.epoch)
        before = role.leader_high_watermark
        self._continue(role, given, partition.high_watermark)
        return given is not None or partition.high_watermark > before

    def _continue(
        self, role: Follower, given: response_checks.Batches | None, high_watermark: int
    ) -> None:
        """Batches that follow the log's end, if any, and the leader's high watermark, negative
        while it knows none.

        A new leader tells a lower one than the last, or none, until it has committed a record of
        its own epoch (KAFKA-12460).
        """
        node = self._node
        if given is not None:
            self._append(given)
        if high_watermark >= 0:
            role.leader_high_watermark = node.leader_high_watermark = high_watermark
        self.advance(role)
        recorded = self._recorded_voters
        caught_up = 0 <= high_watermark <= node.log.end_offset  # older records name older voters
        if (
            node.settings.observer is not None
            and caught_up
            and recorded not in (None, node.reported_voters)
        ):
            assert recorded is not None
            node.learn_voters(recorded)

    def _append(self, given: response_checks.Batches) -> None:
        node = self._node
        found = batches.find(
            given.data,
            known_versions=None if node.settings.observer is not None else KRAFT_VERSIONS,
        )
        end_offset = given.end.offset
        node.measures.fetched_records += end_offset - node.log.end_offset
        node.append(given.data, end_offset, found.batches)
        for offset, kraft_version in found.versions:
            node.history.add_version(offset, kraft_version)
        for offset, voters in found.voters:
            node.history.add_voters(offset, voters)
        self._recorded_voters = found.voter_ids or self._recorded_voters
        if found.voters:
            node.voters_changed()

    def advance(self, role: Follower) -> None:
        """What the leader called committed is so here as far as it is durable here."""
        node = self._node
        reached = min(role.leader_high_watermark, node.log.flushed)
        if reached > node.high_watermark:
            node.high_watermark = reached
            node.emit(Advance(reached))

    @property
    def _committed(self) -> int:
        """Never cut below this, nor below a snapshot whose end is committed although the number was
        lost in a crash.
        """
        return max(self._node.high_watermark, self._node.log.start_offset)

    def _truncate_diverged(self, leaders: Position, sender: str) -> None:
        """Cut back what was never committed."""
        node = self._node
        end, committed = node.log.end, self._committed
        target = truncation_offset(node.log, leaders)
        if target < committed:
            node.stop(error_messages.below_high_watermark(sender, leaders, end, target, committed))
            return
        if target >= end.offset:
            raise InvalidResponse(
                f"logs that diverge at epoch {leaders.epoch}, offset {leaders.offset}, which the local log "
                f"(end {end.offset}, epoch {end.epoch}) does not contradict"
            )
        node.truncate_to(target)
        node.report(
            "log truncated",
            to=target,
            at=end.offset,
            epoch=end.epoch,
            leader_epoch=leaders.epoch,
            leader=sender,
        )

    def _on_snapshot_offered(
        self, role: Follower, id: SnapshotId, partition: PartitionData, sender: str
    ) -> None:
        """The leader no longer gives what follows the log's end, but a snapshot of it."""
        node, observer = self._node, self._node.settings.observer
        end, committed = node.log.end, self._committed
        if id == (end.offset, end.epoch):
            raise InvalidResponse(f"the snapshot {id}, at whose end the local log already is")
        if id.end_offset < committed:
            node.stop(error_messages.snapshot_below_high_watermark(sender, str(id), end, committed))
            return
        if (
            observer is None
            or not observer.history
            or not self._history.may_read(id, partition.log_start_offset, committed)
        ):
            self._download(role, id, sender)
        elif end.offset > committed:
            # Below a snapshot the leader cannot see whether the logs agree. They do as far as this
            # one is committed.
            node.truncate_to(committed)
            node.report(
                "log truncated",
                to=committed,
                at=end.offset,
                epoch=end.epoch,
                below=str(id),
                leader=sender,
            )
        else:
            self._history.below = id
            if id != self._history.found:
                node.report("history tried", below=str(id), at=end.offset, leader=sender)

    def _take_history(
        self,
        role: Follower,
        partition: PartitionData,
        below: SnapshotId,
        snapshot_id: SnapshotId | None,
        diverging: Position | None,
        sender: str,
    ) -> bool:
        """The response to a Fetch below a snapshot: what follows the log's end if it begins there,
        else the snapshot it is.
        """
        node = self._node
        self._history.below = None
        given = None
        if snapshot_id is None and diverging is None:
            with contextlib.suppress(
                InvalidResponse
            ):  # at offset 1 the leader gives the second batch if the first has one record
                given = response_checks.given_batches(partition, node.log.end, node.epoch)
        if given is None:
            self._history.tried = below
            self._download(role, snapshot_id or below, sender)
            return True
        self._continue(role, given, partition.high_watermark)
        if below != self._history.found:
            node.report("history found", below=str(below), leader=sender)
        self._history.read(below, given.end.offset, role.leader_high_watermark)
        return True

    def _download(self, role: Follower, id: SnapshotId, sender: str) -> None:
        node = self._node
        self._history.below = None
        role.download = Download(id)
        node.emit(BeginSnapshot(id))
        node.report("snapshot begun", snapshot=str(id), leader=sender)

    # --- snapshots ---

    def _on_snapshot_answer(
        self, role: Follower, address: Address, download: Download, message: Any, version: int
    ) -> bool | None:
        node, sender = self._node, f"leader {role.leader_id} ({address})"
        assert isinstance(message, FetchSnapshotResponse), message
        try:
            if message.error_code:
                fetching.refused(node, address, sender, message.error_code)
                return self._give_up(role, download, sender, error_name(message.error_code))
            partition = response_checks.snapshot_partition(message)
        except InvalidResponse as problem:
            return self._give_up(role, download, sender, str(problem))
        if not fetching.handle_leader_and_epoch(node, sender, partition, message):
            return self._give_up(role, download, sender, error_name(partition.error_code))
        if node.role is not role or role.download is not download:
            return False
        try:
            chunk = download.take(partition)
        except InvalidResponse as problem:
            return self._give_up(role, download, sender, str(problem))
        self._leader_answered(role)
        if chunk is None:
            node.back_off()
            return False
        node.emit(chunk)
        if download.complete:
            self._install(role, download)
        return (
            None if node.settings.observer is not None else True
        )  # progress is a whole snapshot that the log takes

    def _install(self, role: Follower, download: Download) -> None:
        node = self._node
        assert node.installing is None, "two snapshots at once"
        role.download = None
        node.installing = download.id
        node.emit(InstallSnapshot(node.next_token(), download.id))

    def _give_up(self, role: Follower, download: Download, sender: str, why: str) -> bool:
        """Back to Fetch, which says what there is now (KIP-630)."""
        node = self._node
        node.back_off()
        if node.role is role and role.download is download:
            role.download = None
            node.emit(AbandonSnapshot(download.id))
            node.report("snapshot given up", snapshot=str(download.id), leader=sender, reason=why)
        return False

    def on_installed(self, event: Installed) -> None:
        """The log begins anew at the snapshot's end; what it stands for is committed."""
        node = self._node
        assert node.installing == event.id, "a snapshot was installed that nobody wanted"
        node.installing = None
        node.log.truncate_to_snapshot(event.id)
        node.history.truncate_to_snapshot(event.id, event.voters, event.kraft_version)
        if event.voters is not None:
            self._recorded_voters = frozenset(event.voters.nodes)
        node.voters_changed()
        if event.id.end_offset > node.high_watermark:
            node.high_watermark = event.id.end_offset
            node.emit(Advance(event.id.end_offset))
        node.progressed()
        node.report("snapshot installed", snapshot=str(event.id))

    def on_not_installed(self, event: NotInstalled) -> None:
        """The snapshot was bad: the leader is asked again, after a rest."""
        node, role = self._node, self._node.role
        assert node.installing == event.id, "a snapshot was refused that nobody wanted"
        node.installing = None
        node.protocol_violation(f"leader {node.leader_id}", f"snapshot {event.id}: {event.reason}")
        node.back_off()
        if isinstance(role, Follower):
            self._suspect_leader(role)
            node.peers.rest(role.endpoints[node.settings.listener], node.now)
