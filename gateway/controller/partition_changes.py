"""The changes of partitions that one operation makes, each built on those before it. Knows no
request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from gateway.controller.configs.config_records import MIN_ISR
from gateway.controller.configs.topic_configs import effective_topic_config
from gateway.controller.errors import ApiError
from gateway.controller.features import has_elr
from gateway.controller.partition_change import Election, Rules, Target, leave_isr, partition_change
from gateway.controller.request_context import ControllerRequestContext
from kwire.cluster.fold import merge
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.message import Message
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import ErrorCode
from kwire.protocol.metadata_version import is_leader_epoch_bump_required_on_isr_shrink
from kwire.uuid import Uuid

_UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


class PartitionChanges:
    """Nodes that are active may lead, in partitions that they have in a directory that they did not
    lose.
    """

    def __init__(self, context: ControllerRequestContext) -> None:
        #: What is to be written, in order.
        self.records: Final[list[Message]] = []
        self._context = context
        self._nodes = context.nodes
        self._elr = has_elr(context.image)
        self._changed: dict[tuple[Uuid, int], PartitionRecord] = {}
        self._left: dict[
            tuple[Uuid, int], tuple[PartitionRecord, PartitionChangeRecord]
        ] = {}  # changed, and not looked at since
        self._accepted: dict[tuple[int, Uuid], bool] = {}
        self._configs: dict[tuple[Uuid, str], str] = {}
        self._min_isrs: dict[Uuid, int] = {}

    def partition(self, topic_id: Uuid, index: int) -> PartitionRecord | None:
        """The partition as the changes so far have left it; None where there is none."""
        key = topic_id, index
        if key in self._left:
            self._changed[key] = merge(*self._left.pop(key))
        changed = self._changed.get(key)
        return (
            self._context.image.partitions.get(topic_id, {}).get(index)
            if changed is None
            else changed
        )

    def named(self, name: str, index: int, no_topic: str, no_partition: str) -> PartitionRecord:
        """The same, of the topic of that name. Raises ApiError UNKNOWN_TOPIC_OR_PARTITION in these
        words.
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
        """Make ``partition``, which :meth:`partition` gave, what ``target`` says; it is returned as
        it is then.

        The same object comes back where that changes nothing; else :attr:`records` has one more.
        The node ``joining`` may lead although the state does not call it active yet, and
        ``leaving`` may not although it still does.
        """

        def may_lead(node_id: int) -> bool:
            return node_id != leaving and (node_id == joining or self._nodes.is_active(node_id))

        record = partition_change(partition, target, self._rules(partition, may_lead))
        if record is None:
            return partition
        self.records.append(record)
        after = self._changed[partition.topic_id, partition.partition_id] = merge(partition, record)
        return after

    def leave(self, partition: PartitionRecord, node_id: int, lost: Collection[int] = ()) -> None:
        """The node leaves the ISR of ``partition``, which :meth:`partition` gave, and leads it no
        more; of ``lost`` nobody knows what they still have.
        """
        if not lost and not is_leader_epoch_bump_required_on_isr_shrink(self._context.level):
            record = leave_isr(
                partition, node_id, self._accepts, self._min_isr(partition.topic_id), elr=self._elr
            )
            if record is not None:
                self.records.append(record)
                self._left[partition.topic_id, partition.partition_id] = partition, record
                return
        isr = [other for other in partition.isr if other != node_id]
        target = Target(isr=isr, election=self.election(partition.topic_id), unclean_shutdown=lost)
        self.make(partition, target, leaving=node_id)

    def election(self, topic_id: Uuid) -> Election:
        """How leaders of the topic are elected when one is needed:
        ``unclean.leader.election.enable``.
        """
        return (
            Election.UNCLEAN
            if self._config(topic_id, _UNCLEAN_ELECTION).lower() == "true"
            else Election.ONLINE
        )

    def _accepts(self, partition: PartitionRecord, node_id: int) -> bool:
        """May the node, one of its replicas, lead it? The same is asked of few nodes and their
        directories, often.
        """
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
        """No more than there are replicas, of the first partition as in Kafka
        (``getTopicEffectiveMinIsr``).
        """
        found = self._min_isrs.get(topic_id)
        if found is None:
            partitions = self._context.image.partitions[topic_id]
            most = len(partitions[min(partitions)].replicas)
            found = self._min_isrs[topic_id] = min(int(self._config(topic_id, MIN_ISR)), most)
        return found

    def _config(self, topic_id: Uuid, name: str) -> str:
        value = self._configs.get((topic_id, name))
        if value is None:
            image = self._context.image
            own = image.configs.get((TOPIC_RESOURCE, image.topics[topic_id]), {})
            effective = effective_topic_config(image, own, self._context.settings.node_id, name)
            value = self._configs[topic_id, name] = effective.value or ""
        return value
