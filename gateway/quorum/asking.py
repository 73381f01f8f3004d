"""What to ask next, and of whom: the leader's log, the snapshot that stands for a part of it, or who the quorum is.

Knows how things stand, and nothing of what answers do to that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gateway.quorum import requests
from gateway.quorum.effects import Ask
from gateway.quorum.introduction import DESCRIBE_CLUSTER, Introduction
from gateway.quorum.leader import NO_LEADER, Leadership
from gateway.quorum.replica import Replica
from gateway.quorum.settings import ObserverSettings
from kwire.message import Message
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest


class Asking:
    """Makes the asks of one observer, numbered."""

    def __init__(self, settings: ObserverSettings, leadership: Leadership, replica: Replica, introduction: Introduction) -> None:
        self._settings = settings
        self._leadership = leadership
        self._replica = replica
        self._introduction = introduction
        self._number = 0

    def ask(self, now: float) -> Ask:
        """Only the leader is asked for more than its log: from all others, a Fetch gets who leads."""
        self._number += 1
        address, node_id = self._leadership.target()
        api_key, versions, request = self._about_the_leader(now) if node_id != NO_LEADER else self._fetch()
        timeout_s = self._settings.request_timeout_s
        if node_id != NO_LEADER:  # of whose silence there is enough sooner
            timeout_s = min(timeout_s, self._settings.fetch_timeout_s)
        return Ask(self._number, address, node_id, api_key, versions, timeout_s, request)

    def _about_the_leader(self, now: float) -> tuple[int, range, Callable[[int], Message]]:
        aside = self._introduction.question(now)
        if aside is not None:
            about_cluster = aside.API_KEY == DESCRIBE_CLUSTER
            versions = requests.DESCRIBE_CLUSTER_VERSIONS if about_cluster else requests.DESCRIBE_QUORUM_VERSIONS
            return aside.API_KEY, versions, lambda version: aside
        download = self._replica.download
        if download is None or download.interrupted:
            return self._fetch()
        request = requests.fetch_snapshot(
            self._introduction.identity,
            self._settings,
            epoch=self._leadership.epoch,
            snapshot_id=download.id,
            position=download.position,
        )
        return FetchSnapshotRequest.API_KEY, requests.FETCH_SNAPSHOT_VERSIONS, lambda version: request

    def _fetch(self) -> tuple[int, range, Callable[[int], Message]]:
        request = partial(
            requests.fetch,
            identity=self._introduction.identity,
            settings=self._settings,
            epoch=self._leadership.epoch,
            position=self._replica.fetch_position,
            high_watermark=self._replica.told_or_known,
        )
        return FetchRequest.API_KEY, requests.FETCH_VERSIONS, request
