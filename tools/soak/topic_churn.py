"""The load of a churn: creates, uses once and deletes topics and classic groups, at a
bounded rate.

Every operation must succeed, except that a request may have to be sent again (``tools.admin``). A
worker deletes each topic or group before it creates the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from kwire.messages import create_topics_request as create_topics
from kwire.messages import delete_topics_request as delete_topics
from kwire.messages import join_group_request as join_group
from kwire.messages import leave_group_request as leave_group
from kwire.messages import offset_commit_request as offset_commit
from kwire.messages import sync_group_request as sync_group
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.messages.delete_groups_request import DeleteGroupsRequest
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.uuid import Uuid
from tools.admin import Admin

#: A worker opens a new connection after so many topics or groups, so that connections come and go
#: too.
_PER_CONNECTION = 100
_TIMEOUT_MS = 30_000
_TOPIC = CLUSTER_METADATA_TOPIC
#: Its id in every cluster (``Uuid.METADATA_TOPIC_ID``), for the versions of OffsetCommit that go by
#: ids.
_TOPIC_ID = Uuid(bytes(15) + b"\1")
#: MEMBER_ID_REQUIRED: the answer carries the member id to join with (KIP-394).
_MEMBER_ID_REQUIRED = 79
#: TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION, GROUP_ID_NOT_FOUND: a request that was sent
#: twice was carried out.
_SENT_TWICE = (36, 3, 69)


class Load:
    """Threads that create and delete topics and groups until :meth:`stop`; ``topics`` and
    ``groups`` count what was deleted.

    ``per_second``: topics of all workers together. ``partitions``: of each topic. Raises, in
    :meth:`check` and :meth:`stop`, the first exception of a worker.
    """

    def __init__(
        self, addresses: Sequence[str], per_second: float, *, partitions: int = 1, workers: int = 2
    ) -> None:
        self.topics = 0
        self.groups = 0
        self._addresses = list(addresses)
        self._partitions = partitions
        self._pause_s = workers / per_second
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._threads = [self._thread(self._churn_topics, number) for number in range(workers)]
        self._threads.append(self._thread(self._churn_groups, workers))

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def check(self) -> None:
        """Raise the exception of a worker that failed."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End all workers and wait for them."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self.check()

    def _thread(self, work: Callable[[Admin, str], None], number: int) -> threading.Thread:
        return threading.Thread(target=self._run, args=(work, number), name=f"churn-{number}")

    def _run(self, work: Callable[[Admin, str], None], number: int) -> None:
        done, due = 0, time.monotonic()
        turn = number % len(self._addresses)
        addresses = [*self._addresses[turn:], *self._addresses[:turn]]
        try:
            while not self._stop.is_set():
                with Admin(addresses) as admin:
                    for _ in range(_PER_CONNECTION):
                        work(admin, f"churn-{number}-{done}")
                        done += 1
                        due = max(due + self._pause_s, time.monotonic() - 1)
                        if self._stop.wait(max(0.0, due - time.monotonic())):
                            return
        except BaseException as error:
            self._failure = self._failure or error
            self._stop.set()

    def _churn_topics(self, admin: Admin, name: str) -> None:
        topic = create_topics.CreatableTopic(
            name=name, num_partitions=self._partitions, replication_factor=1
        )
        admin.send(
            create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS),
            accept=_SENT_TWICE,
        )
        admin.send(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), accept=(3, 5))
        doomed = delete_topics.DeleteTopicState(name=name)
        admin.send(
            delete_topics.DeleteTopicsRequest(topics=[doomed], timeout_ms=_TIMEOUT_MS),
            accept=_SENT_TWICE,
        )
        with self._lock:
            self.topics += 1

    def _churn_groups(self, admin: Admin, group_id: str) -> None:
        """One member joins, gets its assignment, commits an offset and leaves; then the group is
        deleted.
        """
        member_id, generation = _join(admin, group_id)
        mine = sync_group.SyncGroupRequestAssignment(member_id=member_id, assignment=b"assignment")
        admin.send(
            sync_group.SyncGroupRequest(
                group_id=group_id,
                generation_id=generation,
                member_id=member_id,
                assignments=[mine],
                protocol_type="consumer",
                protocol_name="range",
            )
        )
        partition = offset_commit.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1
        )
        committed = offset_commit.OffsetCommitRequestTopic(
            name=_TOPIC, topic_id=_TOPIC_ID, partitions=[partition]
        )
        admin.send(
            offset_commit.OffsetCommitRequest(
                group_id=group_id,
                generation_id_or_member_epoch=generation,
                member_id=member_id,
                topics=[committed],
            )
        )
        leaver = leave_group.MemberIdentity(member_id=member_id)
        admin.send(leave_group.LeaveGroupRequest(group_id=group_id, members=[leaver]))
        admin.send(DeleteGroupsRequest(groups_names=[group_id]), accept=_SENT_TWICE)
        with self._lock:
            self.groups += 1


def _join(admin: Admin, group_id: str) -> tuple[str, int]:
    """Member id and generation of a group's only member."""
    metadata = b"\0\0" + ConsumerProtocolSubscription(topics=[_TOPIC]).encode(0)
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=metadata)
    request = join_group.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    answer = admin.send(request, accept=(_MEMBER_ID_REQUIRED,))
    if answer.error_code == _MEMBER_ID_REQUIRED:
        request.member_id = answer.member_id
        answer = admin.send(request)
    return answer.member_id, answer.generation_id
