"""Tells the active controller in which log directory of this broker each replica is, where its
image says otherwise (``AssignmentsManager``, AssignReplicasToDirs, KIP-858).

One request is in flight at a time, with the assignments that have gathered; they are sent again
until the image has them. It places nothing: ``log_manager`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.server.broker.log_manager import Key, assigned_directory
from kwire.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kwire.protocol import error_name
from kwire.protocol.metadata_version import is_directory_assignment_supported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.broker.lifecycle import BrokerLifecycle
    from gateway.log.partition.log_directories import LogDirectory
    from gateway.server.logging.logs import Reports
    from gateway.server.quorum.own_requests import OwnRequests
    from gateway.sources.metadata_loader import MetadataLoader
    from kwire.cluster import Image
    from kwire.messages.partition_record import PartitionRecord
    from kwire.uuid import Uuid

_VERSION: Final = 0
#: Assignments of one request at most (``MAX_ASSIGNMENTS_PER_REQUEST``).
_SENT_MAX: Final = 2000
#: Pause before assignments are sent again, s, and the most that it grows to.
_RETRY_S: Final = 0.1
_RETRY_MAX_S: Final = 10.0


class AssignmentsManager:
    """:meth:`run` is the task."""

    def __init__(
        self,
        lifecycle: BrokerLifecycle,
        requests: OwnRequests,
        loader: MetadataLoader,
        reports: Reports,
    ) -> None:
        self._lifecycle = lifecycle
        self._requests = requests
        self._loader = loader
        self._reports = reports
        self._wanted: dict[Key, LogDirectory] = {}
        self._wake = trio.Event()

    def assign(self, record: PartitionRecord, directory: LogDirectory) -> None:
        """Have the controller told that this broker's replica is in ``directory``, also if that has
        failed since: the controller would take the replica for one that is online.
        """
        self._wanted[record.topic_id, record.partition_id] = directory
        self._wake.set()

    async def run(self) -> None:
        """Send the assignments, for ever."""
        pause = _RETRY_S
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while wanted := self._due():
                known = await self._send(wanted)
                pause = _RETRY_S if known else min(2 * pause, _RETRY_MAX_S)
                # The image has them after a moment, and those that were refused are tried again.
                await trio.sleep(pause)

    def _due(self) -> dict[Key, LogDirectory]:
        """Forget the assignments that the image has, or that mean nothing any more; return those
        that are to be sent now.
        """
        image = self._loader.image
        over: list[Key] = []
        due: dict[Key, LogDirectory] = {}
        for key, directory in self._wanted.items():
            if not self._is_due(image, key, directory):
                over.append(key)
                continue
            due[key] = directory
            if len(due) == _SENT_MAX:
                break
        for key in over:
            del self._wanted[key]
        return due

    def _is_due(self, image: Image, key: Key, directory: LogDirectory) -> bool:
        record = image.partitions.get(key[0], {}).get(key[1])
        node_id = self._lifecycle.broker_id
        if record is None or node_id not in record.replicas:
            return False
        is_supported = is_directory_assignment_supported(image.metadata_version)
        return is_supported and assigned_directory(record, node_id) != directory.id

    async def _send(self, wanted: dict[Key, LogDirectory]) -> bool:
        """Send one request; whether the controller has taken all of it."""
        request = AssignReplicasToDirsRequest(
            broker_id=self._lifecycle.broker_id,
            broker_epoch=self._lifecycle.epoch,
            directories=_directories(wanted),
        )
        response = await self._requests.send(request, _VERSION)
        if response is None:
            return False
        errors = [response.error_code] * bool(response.error_code) or [
            partition.error_code
            for directory in response.directories
            for topic in directory.topics
            for partition in topic.partitions
            if partition.error_code
        ]
        if errors:
            self._reports.report(
                "replicas not assigned", error=error_name(errors[0]), partitions=len(errors)
            )
        return not errors


def _directories(wanted: dict[Key, LogDirectory]) -> list[DirectoryData]:
    by_directory: dict[Uuid, list[Key]] = {}
    for key, one in wanted.items():
        by_directory.setdefault(one.id, []).append(key)
    return [DirectoryData(id=id, topics=_topics(keys)) for id, keys in by_directory.items()]


def _topics(keys: Iterable[Key]) -> list[TopicData]:
    topics: dict[Uuid, TopicData] = {}
    for topic_id, index in keys:
        topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
        topic.partitions.append(PartitionData(partition_index=index))
    return list(topics.values())
