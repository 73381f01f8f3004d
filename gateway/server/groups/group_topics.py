"""Shows consumer groups the topics that clients of this node see, and the configs of groups
(``CoordinatorMetadataImage``, ``GroupConfigManager``).

It reads the image and keeps nothing of it but the number of its last new topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, cast

from gateway.groups.consumer.topics import TopicMetadata
from gateway.groups.settings import ConsumerSettings
from gateway.handlers.catalog import (
    Topic,
    controller_image,
    fixed_topics,
    topic_named,
    topic_with_id,
    view_topics,
)
from kwire.protocol import ConfigResourceType

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.handlers.gateway_port import Gateway
    from kwire.cluster.image import Image
    from kwire.uuid import Uuid

_SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
_HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
_ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"


class GroupTopics:
    """``gateway.groups.consumer.topics.Topics``. Until :meth:`show` there are none."""

    def __init__(self) -> None:
        self.gateway: Gateway | None = None
        self._names_version = 0
        self._newest: tuple[int, str | None, Uuid | None] = (0, None, None)

    def show(self, gateway: Gateway | None) -> None:
        """Show the topics of ``gateway`` from now on; None: no more."""
        self.gateway = gateway

    @property
    def _context(self) -> Context:
        """This as the context of a request, of which the catalog reads ``gateway`` alone."""
        return cast("Context", self)

    @property
    def _image(self) -> Image | None:
        return None if self.gateway is None else controller_image(self._context)

    @property
    def version(self) -> int:
        """The next offset of the metadata log; another number when views become available."""
        if self.gateway is None:
            return 0
        image = self._image
        at = 0 if image is None else image.next_offset
        return 2 * at + bool(view_topics(self._context)) + 1

    @property
    def names_version(self) -> int:
        """The ``version`` at which this was asked first after a topic was created."""
        image = self._image
        names = {} if image is None else image.topic_ids
        last = next(reversed(names), None)
        newest = (len(names), last, None if last is None else names[last])
        if newest != self._newest:
            self._newest, self._names_version = newest, self.version
        return self._names_version

    def named(self, name: str) -> TopicMetadata | None:
        """The topic of that name, if there is one."""
        return None if self.gateway is None else self._metadata(topic_named(name, self._context))

    def with_id(self, topic_id: Uuid) -> TopicMetadata | None:
        """The topic with that id, if there is one."""
        if self.gateway is None:
            return None
        return self._metadata(topic_with_id(topic_id, self._context))

    def names(self) -> Iterable[str]:
        """All topics that are listed."""
        if self.gateway is None:
            return ()
        image = self._image
        created = [] if image is None else list(image.topic_ids)
        return [*(topic.name for topic in fixed_topics(self._context)), *created]

    def configs_of(self, group_id: str, defaults: ConsumerSettings) -> ConsumerSettings:
        """The settings of a consumer group, with those of its configs."""
        image = self._image
        configs = (
            {} if image is None else image.configs.get((int(ConfigResourceType.GROUP), group_id))
        )
        if not configs:
            return defaults
        return ConsumerSettings(
            int(configs.get(_SESSION_TIMEOUT, defaults.session_timeout_ms)),
            int(configs.get(_HEARTBEAT_INTERVAL, defaults.heartbeat_interval_ms)),
            int(configs.get(_ASSIGNMENT_INTERVAL, defaults.assignment_interval_ms)),
        )

    def _metadata(self, topic: Topic | None) -> TopicMetadata | None:
        if topic is None:
            return None
        if topic.partitions is None:
            return TopicMetadata(topic.name, topic.topic_id, 1)
        return TopicMetadata(topic.name, topic.topic_id, len(topic.partitions), self._racks(topic))

    def _racks(self, topic: Topic) -> tuple[tuple[str, ...], ...]:
        image = self._image
        brokers = {} if image is None else image.brokers
        racks = {node: one.rack for node, one in brokers.items() if one.rack is not None}
        if not racks or topic.partitions is None:
            return ()
        return tuple(
            tuple(racks[node] for node in topic.partitions[index].replicas if node in racks)
            for index in sorted(topic.partitions)
        )
