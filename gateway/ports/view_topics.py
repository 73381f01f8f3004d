"""Names the view topics and their ids: topics that ``gateway.views`` derives from the metadata log.

They are the same at every server. It does not know what the topics hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from gateway.ports.services import Partition

#: The view of every change; each other view has the entities of one kind.
CHANGES: Final = "changes"
#: In the order in which they are listed. The position gives a topic its id: append only.
VIEWS: Final = (
    CHANGES,
    "topics",
    "partitions",
    "configs",
    "acls",
    "brokers",
    "controllers",
    "quotas",
    "features",
    "users",
    "tokens",
)
#: UUID version 8 (RFC 9562, custom), as the id of the audit topic: the random ids that a controller
#: gives to topics are of version 4.
_ID_PREFIX: Final = b"kwire\0\x80\0\x80\0\0\0\0\0\1"


def view_topic(view: str) -> str:
    """Return the name of a view's topic: ``__cluster_metadata.topics``."""
    return f"{CLUSTER_METADATA_TOPIC}.{view}"


#: Ids of the view topics by name.
VIEW_TOPICS: Final[Mapping[str, Uuid]] = MappingProxyType(
    {view_topic(view): Uuid(_ID_PREFIX + bytes([n])) for n, view in enumerate(VIEWS)}
)
#: Views by the id of their topic.
VIEW_NAMES: Final[Mapping[Uuid, str]] = MappingProxyType(
    {topic_id: name for name, topic_id in VIEW_TOPICS.items()}
)


class Views(Protocol):
    """The view topics, which are derived from the metadata log (``gateway.ports.view_topics``)."""

    @property
    def available(self) -> bool:
        """Whether the log leads to a state that views can show: it is served from its beginning, or
        with the snapshot that it starts at.
        """
        ...

    @property
    def listed(self) -> bool:
        """Whether they are among all topics. If not, a client has to name them, so that a consumer
        which subscribes to a pattern such as ``__cluster_.*`` does not get derived topics as well.
        """
        ...

    def partition(self, topic: str) -> Partition:
        """The only partition of a view topic. It makes batches when they are read: a read below the
        high watermark may be empty, and the partition advances when there are more.
        """
        ...
