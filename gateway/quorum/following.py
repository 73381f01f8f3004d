"""Copies the leader's log: sends Fetch, and appends or truncates by the response (KIP-595, 630).

It serves voters, observers of this quorum, and gateways that observe another one
(``settings.observer``), which adds ``handshake`` and ``full_history_fetch``. ``snapshot_fetch``
downloads snapshots. A response that no leader sends costs a pause; only one that would undo
committed records stops the node. Follows ``KafkaRaftClient.pollFollower`` and
``handleFetchResponse``.
"""

from __future__ import annotations

import contextlib
import math
from functools import partial
from typing import Any, Final

from gateway.base.address import Address
from gateway.quorum import batches, error_messages, fetching, response_checks
from gateway.quorum.divergence import truncation_offset
from gateway.quorum.effects import Advance, Failure
from gateway.quorum.events import Installed, NotInstalled
from gateway.quorum.full_history_fetch import FullHistoryFetch
from gateway.quorum.handshake import Handshake
from gateway.quorum.leader_discovery import LeaderDiscovery
from gateway.quorum.node import Node
from gateway.quorum.partition import Position
from gateway.quorum.requests import KRAFT_VERSIONS
from gateway.quorum.response_checks import InvalidResponse
from gateway.quorum.roles import Follower
from gateway.quorum.snapshot_fetch import SnapshotFetch
from kwire.messages.fetch_response import PartitionData
from kwire.metadata_log.snapshot_id import SnapshotId

#: The part of ``fetch_max_wait_ms`` that a response without news must take to count as progress. A
#: leader waits the whole time for news; a node that answers at once would be asked in a busy loop.
_EARLY: Final = 0.5


class Following:
    """Copies the leader's log to this node."""

    def __init__(self, node: Node, discovery: LeaderDiscovery) -> None:
        self._node = node
        self._discovery = discovery
        self._handshake = Handshake(node)
        self._history = FullHistoryFetch()
        self._snapshots = SnapshotFetch(node, self._leader_answered, self._suspect_leader)
        # The ids in the newest record about voters in the log.
        self._recorded_voters: frozenset[int] | None = None
        discovery.on_found = self._on_leader_found

    # --- requests to the leader ---

    def poll(self, role: Follower) -> None:
        """Send the next request, unless the node waits for the disk, a response or a pause."""
        node = self._node
        if node.settings.observer is not None and node.now >= node.retry.not_before:
            self._handshake.poll(role)
        # A node that may not campaign cannot bring about a new leader; it can only find one.
        searches = node.now >= role.fetch_until and not node.may_campaign
        if searches:
            self._discovery.poll_without_leader()
        if node.installing is None and node.now >= node.retry.not_before:
            address = role.endpoints[node.settings.listener]
            if node.now >= node.peers.ready_at(address):
                self._ask_leader(role, address)
        if searches:
            self._discovery.poll()

    def deadline(self, role: Follower) -> float:
        """Return the time at which :meth:`poll` has to be called next."""
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
            partial(self._on_failed, role, address)
            if settings.observer is not None
            else partial(fetching.leader_failed, node, role)
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
        self._snapshots.fetch(role, address, download, on_failed)

    def _on_failed(self, role: Follower, address: Address, failure: Failure) -> None:
        fetching.failed(self._node, address, failure)
        self._suspect_leader(role)

    def _suspect_leader(self, role: Follower) -> None:
        """Note an unusable response: an observer also asks the other nodes from now on."""
        self._history.below = None
        # A voter waits for its fetch timeout before it campaigns, so that one lost response makes
        # no epoch. An observer makes no epochs, and may look for another leader at once.
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
        """Return whether the next Fetch may go out at once (see ``peers.OnAnswer``)."""
        node, sender = self._node, f"leader {role.leader_id} ({address})"
        # A node that lost a pre-vote meanwhile follows the same leader with a new role object. The
        # response still counts, as long as the leader, the epoch and the log's end are the same.
        follower = node.role
        late = not isinstance(follower, Follower) or follower.leader_id != role.leader_id
        partition = fetching.only_partition(node, address, sender, message)
        usable = partition is not None and fetching.handle_leader_and_epoch(
            node, sender, partition, message
        )
        if late:
            return None
        if not isinstance(follower, Follower):
            return False
        if partition is None or not usable or node.role is not follower:
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
        """Use the response in which discovery found the leader like any other of that leader."""
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
        """Use an error-free response to a Fetch from ``asked``; return whether it was progress."""
        node = self._node
        # The records in it continue the log at ``asked``. If the log has moved since, they do not
        # fit any more, and a divergence in it would truncate the wrong records. Seeded bugs in
        # tests/sim: ``appends_late_responses``, ``late_divergence_counts``.
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
        # For an observer only what the log has accepted is progress: a false leader could name new
        # snapshots or high watermarks for ever.
        if node.settings.observer is not None:
            news = self._reached(follower) != before
        if node.stopped:
            return False
        self._leader_answered(follower)
        if news or node.now - sent_at >= _EARLY * node.settings.fetch_max_wait_ms / 1000.0:
            node.progressed()
            return True
        node.back_off()
        return False

    def _reached(self, role: Follower) -> tuple[int, int, int, int]:
        """Return what progress is measured by: the log, and the committed part of it."""
        log = self._node.log
        committed = max(self._node.high_watermark, min(role.leader_high_watermark, log.end_offset))
        return log.start_offset, log.end_offset, log.last_epoch, committed

    def _leader_answered(self, role: Follower) -> None:
        """Begin the fetch timeout anew. Until it ends, this node refuses pre-votes (KIP-996)."""
        node, heard_at = self._node, self._node.now - self._node.distance.silent_s  # by a relay
        role.fetched, role.ended, role.successor = True, False, False
        node.answered()
        role.fetch_until = heard_at + role.timeout_s
        if heard_at > -math.inf:
            node.leader_answered_at = max(node.leader_answered_at or heard_at, heard_at)
        if node.now < role.fetch_until:
            self._discovery.found()

    def _take(
        self, role: Follower, partition: PartitionData, below: SnapshotId | None, sender: str
    ) -> bool:
        """Truncate, begin a snapshot, or append; return whether the response had anything new.

        Raises InvalidResponse.
        """
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
        """Append the batches, if any, and take the leader's high watermark, -1 if it has none."""
        node = self._node
        if given is not None:
            self._append(given)
        # A new leader has a lower high watermark than the last one, or none, until a record of its
        # own epoch is committed (KAFKA-12460). The node's own high watermark never decreases.
        if high_watermark >= 0:
            role.leader_high_watermark = node.leader_high_watermark = high_watermark
        self.advance(role)
        recorded = self._recorded_voters
        # Records in the middle of the log name older voters, one of which may have this replica id.
        caught_up = 0 <= high_watermark <= node.log.end_offset
        if (
            node.settings.observer is not None
            and caught_up
            and recorded not in (None, node.reported_voters)
        ):
            assert recorded is not None
            node.learn_voters(recorded)

    def _append(self, given: response_checks.Batches) -> None:
        node = self._node
        found = batches.inspect(
            given.data,
            known_versions=None if node.settings.observer is not None else KRAFT_VERSIONS,
        )
        node.measures.fetched_records += given.end.offset - node.log.end_offset
        node.append(given.data, given.end.offset, found.batches)
        for offset, kraft_version in found.versions:
            node.history.add_version(offset, kraft_version)
        for offset, voters in found.voters:
            node.history.add_voters(offset, voters, node.high_watermark)
        self._recorded_voters = found.voter_ids or self._recorded_voters
        if found.voters:
            node.voters_changed()

    def advance(self, role: Follower) -> None:
        """Raise the high watermark to the leader's, as far as the log is durable on this node."""
        node = self._node
        # Clients must see again after a power failure what they saw before it. Kafka's observers
        # take the leader's high watermark up to their log end, flushed or not (KAFKA-13884).
        reached = min(role.leader_high_watermark, node.log.flushed)
        if reached > node.high_watermark:
            node.high_watermark = reached
            node.emit(Advance(reached))

    @property
    def _committed(self) -> int:
        """The offset below which nothing is truncated.

        A log starts at a committed snapshot, also if a crash lost the high watermark itself.
        """
        return max(self._node.high_watermark, self._node.log.start_offset)

    def _truncate_diverged(self, leaders: Position, sender: str) -> None:
        """Truncate the log to where it agrees with the leader's (``truncateToEndOffset``)."""
        node = self._node
        end, committed = node.log.end, self._committed
        target = truncation_offset(node.log, leaders)
        # Kafka throws here, which stops the process (KAFKA-12460). No response of a correct leader
        # asks for it, so an operator must decide which log is right.
        if target < committed:
            node.stop(error_messages.below_high_watermark(sender, leaders, end, target, committed))
            return
        # Kafka would cut nothing and send the same Fetch again at once.
        if target >= end.offset:
            raise InvalidResponse(
                f"logs that diverge at epoch {leaders.epoch}, offset {leaders.offset}, which the "
                f"local log (end {end.offset}, epoch {end.epoch}) does not contradict"
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
        """Download the snapshot, because the leader has no log for a Fetch at this log's end; or
        try to read the log below it.
        """
        node, observer = self._node, self._node.settings.observer
        end, committed = node.log.end, self._committed
        if id == (end.offset, end.epoch):
            raise InvalidResponse(
                f"the leader offers snapshot {id}, but the local log already ends there"
            )
        if id.end_offset < committed:
            node.stop(error_messages.snapshot_below_high_watermark(sender, str(id), end, committed))
            return
        if (
            observer is None
            or not observer.history
            or not self._history.can_continue(id, partition.log_start_offset, committed)
        ):
            self._download(role, id, sender)
        elif end.offset > committed:
            # Below its oldest snapshot the leader has no epochs to compare, so it cannot tell where
            # the logs diverge. They agree as far as this one is committed.
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
            if id != self._history.succeeded_below:
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
        """Use the response to a Fetch below a snapshot: append its batches if they begin at the
        log's end, else download the snapshot.
        """
        node = self._node
        self._history.below = None
        given = None
        if snapshot_id is None and diverging is None:
            # ``position`` fetches an empty log from offset 1. If the first batch has one record,
            # the leader sends the second batch, which does not begin at the log's end.
            with contextlib.suppress(InvalidResponse):
                given = response_checks.given_batches(partition, node.log.end, node.epoch)
        if given is None:
            self._history.failed_below = below
            self._download(role, snapshot_id or below, sender)
            return True
        self._continue(role, given, partition.high_watermark)
        if below != self._history.succeeded_below:
            node.report("history found", below=str(below), leader=sender)
        self._history.read(below, given.end.offset, role.leader_high_watermark)
        return True

    def _download(self, role: Follower, id: SnapshotId, sender: str) -> None:
        self._history.below = None
        self._snapshots.begin(role, id, sender)

    # --- snapshots ---

    def on_installed(self, event: Installed) -> None:
        """Restart the core's log at the end of the snapshot that is now on disk."""
        self._snapshots.on_installed(event)
        if event.voters is not None:
            self._recorded_voters = frozenset(event.voters.nodes)

    def on_not_installed(self, event: NotInstalled) -> None:
        """Fetch from the leader again, after a pause."""
        self._snapshots.on_not_installed(event)
