"""Downloads a snapshot from the leader and has it installed (KIP-630).

It does not decide when a snapshot replaces the log: ``following`` does. Follows
``KafkaRaftClient.handleFetchSnapshotResponse``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.base.address import Address
from gateway.base.error_text import error_with_code
from gateway.quorum import fetching, requests, response_checks
from gateway.quorum.download import Download
from gateway.quorum.effects import AbandonSnapshot, Advance, BeginSnapshot, InstallSnapshot
from gateway.quorum.events import Installed, NotInstalled
from gateway.quorum.node import Node
from gateway.quorum.peers import OnFailed
from gateway.quorum.response_checks import InvalidResponse
from gateway.quorum.roles import Follower
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.metadata_log.snapshot_id import SnapshotId


class SnapshotFetch:
    """Downloads a snapshot from the leader and has it replace the follower's log.

    ``leader_answered`` is called for each response with a chunk of the snapshot, ``suspect_leader``
    when the downloaded file is damaged.
    """

    def __init__(
        self,
        node: Node,
        leader_answered: Callable[[Follower], None],
        suspect_leader: Callable[[Follower], None],
    ) -> None:
        self._node = node
        self._leader_answered = leader_answered
        self._suspect_leader = suspect_leader

    def begin(self, role: Follower, id: SnapshotId, sender: str) -> None:
        """Begin to download ``id``; an unfinished download of another one is dropped."""
        node = self._node
        role.download = Download(id)
        node.emit(BeginSnapshot(id))
        node.report("snapshot begun", snapshot=str(id), leader=sender)

    def fetch(
        self, role: Follower, address: Address, download: Download, on_failed: OnFailed | None
    ) -> None:
        """Ask the leader for the next chunk."""
        node = self._node
        request = partial(
            requests.fetch_snapshot,
            cluster_id=node.cluster_id,
            replica=node.replica,
            epoch=node.epoch,
            id=download.id,
            position=download.position,
            # Never 0: real Kafka answers that with no bytes and no error, for ever.
            max_bytes=node.settings.snapshot_max_bytes,
        )
        node.ask(
            address,
            role.leader_id,
            FetchSnapshotRequest.API_KEY,
            requests.FETCH_SNAPSHOT_VERSIONS,
            request,
            partial(self._on_answer, role, address, download),
            # Unlike a Fetch it acknowledges nothing but the epoch: one chunk comes while the one
            # before it is written.
            after=max(node.state_token, download.written_first),
            on_failed=on_failed,
        )

    def _on_answer(
        self, role: Follower, address: Address, download: Download, message: Any, version: int
    ) -> bool | None:
        node, sender = self._node, f"leader {role.leader_id} ({address})"
        assert isinstance(message, FetchSnapshotResponse), message
        try:
            # Kafka 4.3 answers every fault of the partition with UNKNOWN_SERVER_ERROR and no
            # topics, because it cannot encode such a response. So this too leads back to Fetch.
            if message.error_code:
                fetching.refused(node, address, sender, message.error_code)
                return self._give_up(role, download, sender, error_with_code(message.error_code))
            partition = response_checks.snapshot_partition(message)
        except InvalidResponse as problem:
            return self._give_up(role, download, sender, str(problem))
        # SNAPSHOT_NOT_FOUND among them: the leader has deleted the snapshot meanwhile, and its next
        # Fetch response names a newer one.
        if not fetching.handle_leader_and_epoch(node, sender, partition, message):
            return self._give_up(role, download, sender, error_with_code(partition.error_code))
        # The epoch and leader above count whenever they come. The bytes count for this download.
        if node.role is not role or role.download is not download:
            return False
        try:
            chunk = download.take(partition, node.next_token)
        except InvalidResponse as problem:
            return self._give_up(role, download, sender, str(problem))
        # Each chunk begins the fetch timeout anew: a download may take longer than that, and must
        # not end in an election (``handleFetchSnapshotResponse``).
        self._leader_answered(role)
        if chunk is None:
            node.back_off()
            return False
        node.emit(chunk)
        if download.complete:
            self._install(role, download)
        # For an observer only a whole snapshot that the log takes is progress: a false leader could
        # send chunks for ever.
        return None if node.settings.observer is not None else True

    def _install(self, role: Follower, download: Download) -> None:
        node = self._node
        assert node.installing is None, "two snapshots at once"
        # Before the answer of the disk: no further chunk is asked for, and ``installing`` stops
        # Fetches until the log's new end is known.
        role.download = None
        node.installing = download.id
        node.emit(InstallSnapshot(node.next_token(), download.id))

    def _give_up(self, role: Follower, download: Download, sender: str, why: str) -> bool:
        """Return to Fetch: its response names the snapshot that the leader has now (KIP-630)."""
        node = self._node
        node.back_off()
        if node.role is role and role.download is download:
            role.download = None
            node.emit(AbandonSnapshot(download.id))
            node.report("snapshot given up", snapshot=str(download.id), leader=sender, reason=why)
        return False

    def on_installed(self, event: Installed) -> None:
        """Restart the core's log at the snapshot's end. Everything in a snapshot is committed."""
        node = self._node
        assert node.installing == event.id, "a snapshot was installed that no download requested"
        node.installing = None
        # Only now: until the file was checked and synced the log on disk is the old one. Kafka
        # throws if the log was not replaced; here a bad file costs a pause (``on_not_installed``).
        node.log.truncate_to_snapshot(event.id)
        # Seeded bugs in tests/sim: ``voters_are_old_after_a_snapshot``,
        # ``the_version_of_a_snapshot_is_not_read``.
        node.history.truncate_to_snapshot(event.id, event.voters, event.kraft_version)
        node.voters_changed()
        if event.id.end_offset > node.high_watermark:
            node.high_watermark = event.id.end_offset
            node.emit(Advance(event.id.end_offset))
        node.progressed()
        node.report("snapshot installed", snapshot=str(event.id))

    def on_not_installed(self, event: NotInstalled) -> None:
        """Suspect the leader, whose file is damaged; the next Fetch is sent after a pause. Give up
        a download whose bytes the disk cannot hold.
        """
        node, role = self._node, self._node.role
        if node.installing != event.id:
            download = role.download if isinstance(role, Follower) else None
            if isinstance(role, Follower) and download is not None and download.id == event.id:
                self._give_up(role, download, f"leader {role.leader_id}", event.reason)
                node.peers.rest(role.endpoints[node.settings.listener], node.now)
            return
        node.installing = None
        node.protocol_violation(f"leader {node.leader_id}", f"snapshot {event.id}: {event.reason}")
        node.back_off()
        if isinstance(role, Follower):
            self._suspect_leader(role)
            node.peers.rest(role.endpoints[node.settings.listener], node.now)
