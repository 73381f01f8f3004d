"""Following a leader: Fetch and FetchSnapshot of voters and observers, and what the answers do to the log.

Kafka's ``pollFollower``, ``handleFetchResponse``, ``handleFetchSnapshotResponse`` (KIP-595, 630). Whatever an answer says that
no leader says costs a rest and nothing else; only what would undo committed records stops the node.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from gateway.address import Address
from gateway.quorum import answers, sentences
from gateway.quorum.answers import Nonsense
from gateway.quorum.download import Download
from gateway.quorum.errors import error_name
from gateway.quorum.raft import asks, batches, fetching
from gateway.quorum.raft.effects import AbandonSnapshot, Advance, BeginSnapshot, InstallSnapshot
from gateway.quorum.raft.events import Installed, NotInstalled
from gateway.quorum.raft.log_view import LogView
from gateway.quorum.raft.node import Node
from gateway.quorum.raft.roles import Follower
from gateway.quorum.raft.seeking import Seeking
from gateway.quorum.requests import Position
from gateway.snapshot_id import SnapshotId
from kwire.messages.fetch_response import PartitionData
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse

#: An answer without news is fruitless when it came before this part of the time that the leader may wait for some.
_EARLY: Final = 0.5


class Following:
    """The part of a node that copies a leader's log."""

    def __init__(self, node: Node, seeking: Seeking) -> None:
        self._node = node
        self._seeking = seeking

    # --- asking the leader ---

    def poll(self, role: Follower) -> None:
        """Fetch what comes next, unless the disk or an answer is being waited for."""
        node = self._node
        if node.installing is None:
            address = role.endpoints[node.settings.listener]
            if node.now >= node.peers.ready_at(address):
                self._ask_leader(role, address)
        if node.now >= role.fetch_until and not node.may_campaign:
            self._seeking.poll()  # an observer or a witness cannot make a new leader, only find one

    def deadline(self, role: Follower) -> float:
        """When :meth:`poll` has something to do next."""
        node = self._node
        if node.installing is not None:
            return math.inf
        asks_at = node.peers.ready_at(role.endpoints[node.settings.listener])
        if node.now < role.fetch_until or node.may_campaign:
            return min(asks_at, role.fetch_until)
        return min(asks_at, self._seeking.deadline())

    def _ask_leader(self, role: Follower, address: Address) -> None:
        node = self._node
        settings, download = node.settings, role.download
        replica = settings.node_id, settings.directory_id
        if download is None:
            wait_ms, on_answer = settings.fetch_max_wait_ms, partial(self._on_fetch_answer, role)
            fetching.fetch(node, address, role.leader_id, on_answer, max_wait_ms=wait_ms, told=role.told)
            return
        request = partial(
            asks.fetch_snapshot,
            cluster_id=settings.cluster_id,
            replica=replica,
            epoch=node.epoch,
            id=download.id,
            position=download.position,
            max_bytes=settings.snapshot_max_bytes,
        )
        node.ask(
            address,
            role.leader_id,
            FetchSnapshotRequest.API_KEY,
            asks.FETCH_SNAPSHOT_VERSIONS,
            request,
            partial(self._on_snapshot_answer, role, download),
            after=node.state_token,
        )

    # --- the leader's answers ---

    def _on_fetch_answer(self, role: Follower, asked: Position, sent_at: float, message: Any, version: int) -> bool | None:
        """True when it brought something, or came late enough that the next may be asked at once.

        Whoever lost a pre-vote meanwhile follows the same leader anew, and may do so more often than that answers: what the
        leader says in the epoch that there is, of the log as it is, counts all the same.
        """
        node, sender = self._node, f"leader {role.leader_id}"
        follower = node.role
        late = not isinstance(follower, Follower) or follower.leader_id != role.leader_id
        partition = fetching.only_partition(node, sender, message)
        usable = partition is not None and fetching.hear(node, sender, partition, message)
        if late:
            return None
        if partition is None or not usable or node.role is not follower or not isinstance(follower, Follower):
            return False
        if node.log.end != asked or node.installing is not None or follower.download is not None:
            return False
        try:
            news = self._take(follower, partition, sender)
        except Nonsense as problem:
            node.nonsense(sender, str(problem))
            return False
        if node.stopped:
            return False
        self._heard_from(follower)
        patience_s = node.settings.fetch_max_wait_ms / 1000.0
        return news or node.now - sent_at >= _EARLY * patience_s

    def _heard_from(self, role: Follower) -> None:
        """The leader works: this node stays with it, and does not vote for others meanwhile."""
        role.fetched, role.ended, role.successor = True, False, False
        role.fetch_until = self._node.now + role.patience_s
        self._seeking.found()

    def _take(self, role: Follower, partition: PartitionData, sender: str) -> bool:
        """What an error-free answer brings: was there anything new? Raises Nonsense."""
        node = self._node
        snapshot_id = answers.given_snapshot(partition, node.epoch)
        diverging = answers.given_divergence(partition)
        if diverging is not None:
            self._diverged(diverging, sender)
            return True
        if snapshot_id is not None:
            self._pointed_to(role, snapshot_id, sender)
            return True
        given = answers.given_batches(partition, node.log.end, node.epoch)
        told, before = partition.high_watermark, role.told
        if given is not None:
            self._append(given)
        if told >= 0:
            role.told = told
        self.advance(role)
        return given is not None or told > before

    def _append(self, given: answers.Batches) -> None:
        node = self._node
        found = batches.find(given.data)
        end_offset = given.end.offset
        node.measures.fetched_records += end_offset - node.log.end_offset
        node.append(given.data, end_offset, found.batches)
        for offset, kraft_version in found.versions:
            node.history.add_version(offset, kraft_version)
        for offset, voters in found.voters:
            node.history.add_voters(offset, voters)
        if found.voters:
            node.voters_changed()

    def advance(self, role: Follower) -> None:
        """What the leader called committed is so here as far as it is durable here."""
        node = self._node
        reached = min(role.told, node.log.flushed)
        if reached > node.high_watermark:
            node.high_watermark = reached
            node.emit(Advance(reached))

    def _diverged(self, leaders: Position, sender: str) -> None:
        """Cut back what was never committed."""
        node = self._node
        end, committed = node.log.end, max(node.high_watermark, node.log.start_offset)
        target = truncation_offset(node.log, leaders)
        if target < committed:
            node.stop(sentences.below_high_watermark(sender, leaders, end, target, committed))
            return
        if target >= end.offset:
            raise Nonsense(
                f"logs that diverge at epoch {leaders.epoch}, offset {leaders.offset}, which the local log "
                f"(end {end.offset}, epoch {end.epoch}) does not contradict"
            )
        node.truncate(target)
        node.tell("log-truncated", to=target, at=end.offset, epoch=end.epoch, leader_epoch=leaders.epoch, leader=sender)

    def _pointed_to(self, role: Follower, id: SnapshotId, sender: str) -> None:
        """The leader no longer has what follows our end, but a snapshot of it."""
        node = self._node
        end = node.log.end
        if id == (end.offset, end.epoch):
            raise Nonsense(f"the snapshot {id}, at whose end the local log already is")
        if id.end_offset < node.high_watermark:
            node.stop(sentences.snapshot_below_high_watermark(sender, str(id), end, node.high_watermark))
            return
        role.download = Download(id)
        node.emit(BeginSnapshot(id))
        node.tell("snapshot-begun", snapshot=str(id), leader=sender)

    # --- snapshots ---

    def _on_snapshot_answer(self, role: Follower, download: Download, message: Any, version: int) -> bool:
        node, sender = self._node, f"leader {role.leader_id}"
        assert isinstance(message, FetchSnapshotResponse), message
        try:
            if message.error_code:
                raise Nonsense(f"a FetchSnapshot refused with {error_name(message.error_code)}")
            partition = answers.snapshot_partition(message)
        except Nonsense as problem:
            return self._give_up(role, download, sender, str(problem))
        if not fetching.hear(node, sender, partition, message):
            return self._give_up(role, download, sender, error_name(partition.error_code))
        if node.role is not role or role.download is not download:
            return False
        try:
            chunk = download.take(partition)
        except Nonsense as problem:
            return self._give_up(role, download, sender, str(problem))
        self._heard_from(role)
        if chunk is None:
            return False
        node.emit(chunk)
        if download.complete:
            self._install(role, download)
        return True

    def _install(self, role: Follower, download: Download) -> None:
        node = self._node
        assert node.installing is None, "two snapshots at once"
        role.download = None
        node.installing = download.id
        node.emit(InstallSnapshot(node.next_token(), download.id))

    def _give_up(self, role: Follower, download: Download, sender: str, why: str) -> bool:
        """Back to Fetch, which says what there is now (KIP-630)."""
        node = self._node
        if node.role is role and role.download is download:
            role.download = None
            node.emit(AbandonSnapshot(download.id))
            node.tell("snapshot-given-up", snapshot=str(download.id), leader=sender, reason=why)
        return False

    def on_installed(self, event: Installed) -> None:
        """The log begins anew at the snapshot's end; what it stands for is committed."""
        node = self._node
        assert node.installing == event.id, "a snapshot was installed that nobody wanted"
        node.installing = None
        node.log.install(event.id)
        node.history.install(event.id, event.voters, event.kraft_version)
        node.voters_changed()
        if event.id.end_offset > node.high_watermark:
            node.high_watermark = event.id.end_offset
            node.emit(Advance(event.id.end_offset))
        node.tell("snapshot-installed", snapshot=str(event.id))

    def on_not_installed(self, event: NotInstalled) -> None:
        """The snapshot was bad: the leader is asked again, after a rest."""
        node, role = self._node, self._node.role
        assert node.installing == event.id, "a snapshot was refused that nobody wanted"
        node.installing = None
        node.nonsense(f"leader {node.leader_id}", f"snapshot {event.id}: {event.reason}")
        if isinstance(role, Follower):
            node.peers.rest(role.endpoints[node.settings.listener], node.now)


def truncation_offset(log: LogView, leaders: Position) -> int:
    """How far our log may agree with one whose epoch ``leaders.epoch`` ends at ``leaders.offset``: always where a batch ends.

    It is the end of our largest epoch not *above* the leader's (the text of KIP-595 says "less than", which throws away
    committed records whenever both have the epoch), and in that same epoch never past the leader's end. Where our epoch is
    an older one the leader's end is no boundary of ours: the next answer is about that epoch. (Kafka takes the smaller
    offset at once, and is left with half a batch.) Raises Nonsense for an epoch that we did not ask about.
    """
    if leaders.epoch > log.last_epoch:
        raise Nonsense(f"logs that diverge in epoch {leaders.epoch}, when ours ends in epoch {log.last_epoch}")
    epoch, ours = log.end_offset_for_epoch(leaders.epoch)
    if epoch < 0:
        ours = log.start_offset
    return ours if epoch < leaders.epoch else min(ours, leaders.offset)
