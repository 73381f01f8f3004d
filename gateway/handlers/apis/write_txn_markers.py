"""WriteTxnMarkers (key 27): ends transactions on partitions of this node, with a control batch on
each.

The transaction coordinator of this node asks the partitions directly; the request is that of a
coordinator on another node, and of ``kafka-transactions.sh abort``, which ends a transaction that
hangs (KIP-664). Source: ``KafkaApis.handleWriteTxnMarkersRequest``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.catalog import topic_named
from gateway.ports.pending_response import PendingResponse
from gateway.ports.replicas import Appended
from gateway.ports.work import in_slices
from kwire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.protocol.topic import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from gateway.broker.produce.refusal import BatchRefused
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer, Work
    from gateway.ports.replicas import WritablePartition
    from kwire.messages.write_txn_markers_request import (
        WritableTxnMarker,
        WriteTxnMarkersRequest,
    )

API_KEY: Final = ApiKey.WRITE_TXN_MARKERS
VERSIONS: Final = range(1, 3)
#: How long the response waits for slow disks, s (``request.timeout.ms``).
_TIMEOUT_S: Final = 30.0


def handle(request: WriteTxnMarkersRequest, context: Context) -> Answer:
    """Append the markers. The response comes when all are written, or refused."""
    size = sum(len(topic.partition_indexes) for one in request.markers for topic in one.topics)
    return in_slices(_Markers(context).run(request), size)


class _Markers:
    """One request, until each of its markers is written or refused."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._response = WriteTxnMarkersResponse()
        self._unwritten: dict[int, WritableTxnMarkerPartitionResult] = {}  # by identity
        self._pending: PendingResponse | None = None

    def run(self, request: WriteTxnMarkersRequest) -> Work:
        """Append every marker, in the order of the request."""
        is_allowed = may_on_cluster(self._context, Operation.ALTER) or may_on_cluster(
            self._context, Operation.CLUSTER_ACTION
        )
        for marker in request.markers:
            result = WritableTxnMarkerResult(producer_id=marker.producer_id)
            self._response.markers.append(result)
            for topic in marker.topics:
                answer = WritableTxnMarkerTopicResult(name=topic.name)
                result.topics.append(answer)
                for index in topic.partition_indexes:
                    one = WritableTxnMarkerPartitionResult(partition_index=index)
                    answer.partitions.append(one)
                    if is_allowed:
                        self._append(marker, topic.name, one)
                    else:
                        one.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                    yield None
        if not self._unwritten:
            return self._response
        self._pending = PendingResponse(
            deadline=self._context.now + _TIMEOUT_S, expire=self._expired
        )
        return self._pending

    def _append(
        self, marker: WritableTxnMarker, topic: str, one: WritableTxnMarkerPartitionResult
    ) -> None:
        found = self._find(topic, one.partition_index)
        if isinstance(found, ErrorCode):
            one.error_code = found
            return
        self._unwritten[id(one)] = one
        found.append_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
            partial(self._done, marker, topic, one),
        )

    def _find(self, name: str, index: int) -> WritablePartition | ErrorCode:
        replicas, topic = self._context.gateway.replicas, topic_named(name, self._context)
        if replicas is None or topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return replicas.find_writable(topic.topic_id, index)

    def _done(
        self,
        marker: WritableTxnMarker,
        topic: str,
        one: WritableTxnMarkerPartitionResult,
        outcome: Appended | BatchRefused,
    ) -> None:
        if isinstance(outcome, Appended):
            if topic == GROUP_METADATA_TOPIC:
                self._context.gateway.groups.complete_transaction(
                    marker.producer_id, one.partition_index, marker.transaction_result
                )
        else:
            one.error_code = outcome.error
        self._unwritten.pop(id(one), None)
        if self._pending is not None and not self._unwritten:
            self._pending.complete(self._response)

    def _expired(self) -> WriteTxnMarkersResponse:
        """The markers may still be written: the coordinator asks again."""
        for one in self._unwritten.values():
            one.error_code = ErrorCode.REQUEST_TIMED_OUT
        return self._response
