"""Collects the partition changes of one operation, each built on those before it.

It supplies ``partition_change`` with the facts of the cluster: live nodes, directories, topic
configs. It knows no request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from gateway.base.java.text import equals_ignore_case, parse_integer, trim
from gateway.base.slices import Slices
from gateway.controller.configs.config_records import MIN_ISR
from gateway.controller.configs.topic_configs import effective_topic_config
from gateway.controller.errors import ApiError
from gateway.controller.features import has_elr
from gateway.controller.partition_change import Election, Rules, Target, leave_isr, partition_change
from gateway.controller.request_context import ControllerRequestContext
from kwire.cluster.entities.partitions import merge
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.cluster.interned_lists import copy_partition_change
from kwire.message import Message
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import ErrorCode
from kwire.protocol.metadata_version import is_leader_epoch_bump_required_on_isr_shrink
from kwire.uuid import Uuid

#: Partitions that are freed between two slices: less than 1 ms.
_FREED_PER_SLICE: Final = 1_000
#: Results that are kept for partitions with the same lists.
_ALIKE_MAX: Final = 10_000
_UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


class PartitionChanges:
    """The changes of one operation.

    A node may lead a partition if it is active, and its replica is in a directory that is online
    (``ReplicationControlManager``'s LeaderAcceptor).
    """

    def __init__(self, context: ControllerRequestContext) -> None:
        #: The records of the changes, in order.
        self.records: Final[list[Message]] = []
        self._context = context
        self._nodes = context.nodes
        self._elr = has_elr(context.image)
        self._changed: dict[tuple[Uuid, int], PartitionRecord] = {}
        # Changed by leave() and not read since. Merging is left out for most of them: when a broker
        # is fenced, thousands of partitions change once.
        self._left: dict[tuple[Uuid, int], tuple[PartitionRecord, PartitionChangeRecord]] = {}
        # Results of leave_isr, each with a partition whose lists it was found for.
        self._alike: dict[tuple[int, ...], tuple[PartitionRecord, PartitionChangeRecord]] = {}
        # The same few answers are needed for thousands of partitions.
        self._accepted: dict[tuple[int, Uuid], bool] = {}
        self._configs: dict[tuple[Uuid, str], str] = {}
        self._min_isrs: dict[Uuid, int] = {}

    def partition(self, topic_id: Uuid, index: int) -> PartitionRecord | None:
        """Return the partition with the changes so far; None if it does not exist."""
        key = topic_id, index
        if key in self._left:
            self._changed[key] = merge(*self._left.pop(key))
        # A partition may come twice in one request: the second change has to build on the first.
        changed = self._changed.get(key)
        return (
            self._context.image.partitions.get(topic_id, {}).get(index)
            if changed is None
            else changed
        )

    def named(self, name: str, index: int, no_topic: str, no_partition: str) -> PartitionRecord:
        """Return :meth:`partition` of the topic of that name.

        Raises ApiError UNKNOWN_TOPIC_OR_PARTITION with the message ``no_topic`` or
        ``no_partition``: Kafka's APIs have different words for it.
        """
        topic_id = self._context.image.topic_ids.get(name)
        if topic_id is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, no_topic)
        partition = self.partition(topic_id, index)
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, no_partition)
        return partition

    def make(
        self,
        partition: PartitionRecord,
        target: Target,
        *,
        joining: int | None = None,
        leaving: int | None = None,
    ) -> PartitionRecord:
        """Change ``partition``, which :meth:`partition` returned, to ``target``; return the result.

        If that changes nothing the same object is returned; else :attr:`records` has one more.
        ``joining`` may lead although it is not active in the state yet, and ``leaving`` may not
        although it is still active there: the record that changes the broker is in the same
        operation (``generateLeaderAndIsrUpdates``).
        """

        def may_lead(node_id: int) -> bool:
            # ``leaving`` first: an unclean election must not choose the node that goes, although it
            # is still active in the state.
            return node_id != leaving and (node_id == joining or self._nodes.is_active(node_id))

        record = partition_change(partition, target, self._rules(partition, may_lead))
        # Nothing differs: a record would raise the partition epoch, and refuse the leader's next
        # AlterPartition.
        if record is None:
            return partition
        self.records.append(record)
        after = self._changed[partition.topic_id, partition.partition_id] = merge(partition, record)
        # AlterPartition compares the partition epoch: two states with one epoch would let a leader
        # overwrite a change that it has not seen.
        assert after.partition_epoch > partition.partition_epoch, "a change has a new epoch"
        return after

    def leave(self, partition: PartitionRecord, node_id: int, lost: Collection[int] = ()) -> None:
        """Remove the node from the ISR of ``partition``, which :meth:`partition` returned, and from
        its leadership. The nodes ``lost`` may have lost records that they acknowledged.
        """
        # ``leave_isr`` handles neither unclean shutdowns nor the epochs of old levels
        # (KAFKA-15021).
        if not lost and not is_leader_epoch_bump_required_on_isr_shrink(self._context.level):
            record = self._left_isr(partition, node_id)
            if record is not None:
                self.records.append(record)
                self._left[partition.topic_id, partition.partition_id] = partition, record
                return
        isr = [other for other in partition.isr if other != node_id]
        target = Target(isr=isr, election=self.election(partition.topic_id), unclean_shutdown=lost)
        self.make(partition, target, leaving=node_id)

    def _left_isr(self, partition: PartitionRecord, node_id: int) -> PartitionChangeRecord | None:
        """Return the result of :func:`leave_isr`, which is the same for partitions that differ in
        topic and number alone: of 200,000 partitions a few hundred have different lists.
        """
        min_isr = self._min_isr(partition.topic_id)
        key = (
            node_id,
            min_isr,
            partition.leader,
            # By identity: the image shares equal lists between partitions, and keeps them
            # meanwhile.
            id(partition.isr),
            id(partition.replicas),
            id(partition.directories),
            id(partition.eligible_leader_replicas),
            id(partition.last_known_elr),
            id(partition.adding_replicas),
            id(partition.removing_replicas),
        )
        same = self._alike.get(key)
        if same is None:
            record = leave_isr(partition, node_id, self._accepts, min_isr, elr=self._elr)
            if record is not None and len(self._alike) < _ALIKE_MAX:
                self._alike[key] = partition, record
            return record
        record = copy_partition_change(same[1])
        record.partition_id, record.topic_id = partition.partition_id, partition.topic_id
        return record

    def forget(self) -> Slices[None]:
        """Free everything but :attr:`records`, in slices: one step would take 60 ms after 200,000
        changes. No partition may be asked for or changed afterwards.
        """
        kept: dict[Any, Any]
        for kept in (self._left, self._changed):
            while kept:
                for _ in range(min(_FREED_PER_SLICE, len(kept))):
                    kept.popitem()
                yield

    def election(self, topic_id: Uuid) -> Election:
        """Return how a leader of the topic is elected: ``unclean.leader.election.enable``."""
        return (
            Election.UNCLEAN
            # Values are stored as clients wrote them. Kafka's controller does not trim this one.
            if equals_ignore_case(self._config(topic_id, _UNCLEAN_ELECTION), "true")
            else Election.ONLINE
        )

    def _accepts(self, partition: PartitionRecord, node_id: int) -> bool:
        """Whether the node, one of the replicas, may lead the partition."""
        directory = partition.directories[partition.replicas.index(node_id)]
        found = self._accepted.get((node_id, directory))
        if found is None:
            found = self._nodes.is_active(node_id) and self._nodes.has_directory(node_id, directory)
            self._accepted[node_id, directory] = found
        return found

    def _rules(self, partition: PartitionRecord, may_lead: Callable[[int], bool]) -> Rules:
        directories = dict(zip(partition.replicas, partition.directories, strict=True))

        def accepts(node_id: int) -> bool:
            directory = directories.get(node_id)
            # A replica that the change adds has no directory yet.
            return may_lead(node_id) and (
                directory is None or self._nodes.has_directory(node_id, directory)
            )

        return Rules(
            accepts,
            self._min_isr(partition.topic_id),
            self._elr,
            self._context.level,
            self._nodes.default_directory,
        )

    def _min_isr(self, topic_id: Uuid) -> int:
        """Return ``min.insync.replicas`` of the topic, but no more than it has replicas.

        The first partition counts for all, as in Kafka (``getTopicEffectiveMinIsr``).
        """
        found = self._min_isrs.get(topic_id)
        if found is None:
            partitions = self._context.image.partitions[topic_id]
            # If more in-sync replicas were required than there are replicas, the ISR would never
            # reach the minimum and the ELR never be emptied.
            most = len(partitions[min(partitions)].replicas)
            found = self._min_isrs[topic_id] = min(self._stored_min_isr(topic_id), most)
        return found

    def _stored_min_isr(self, topic_id: Uuid) -> int:
        try:
            return parse_integer(trim(self._config(topic_id, MIN_ISR)), 32)
        except ValueError:
            # Stored by a release that took more blanks than Kafka does; a broker reads none of it.
            return 1

    def _config(self, topic_id: Uuid, name: str) -> str:
        value = self._configs.get((topic_id, name))
        if value is None:
            image = self._context.image
            # As this node sees it: the dynamic configs of other brokers do not count.
            own = image.configs.get((TOPIC_RESOURCE, image.topics[topic_id]), {})
            effective = effective_topic_config(image, own, self._context.settings.node_id, name)
            value = self._configs[topic_id, name] = effective.value or ""
        return value
