"""Says how a topic in which coordinators keep state is created, and which partition has a key.

It knows no coordinator. Follows ``GroupMetadataManager.partitionFor``,
``TransactionStateManager.partitionFor`` and ``AutoTopicCreationManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.base.java.text import hash_code
from kwire.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_MS: Final = 30_000


class InternalTopicSettings(NamedTuple):
    """A topic that a broker creates when the first client asks for a coordinator."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def partition_for(key: str, partitions: int) -> int:
    """Return the partition whose leader coordinates ``key``: the id of a group, or of a
    transaction.
    """
    # ``Utils.abs``: the smallest int has no counterpart.
    code = abs(hash_code(key))
    return 0 if code == 1 << 31 else code % partitions


def creation_request(topic: InternalTopicSettings) -> CreateTopicsRequest:
    """Return the request that creates the topic."""
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=[
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in topic.configs.items()
                ],
            )
        ],
        timeout_ms=_TIMEOUT_MS,
    )
