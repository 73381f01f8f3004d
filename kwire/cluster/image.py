"""Holds the state of a cluster: topics, partitions, configs, brokers and the rest, each as its
newest record.

Values are Kafka's own record messages, in the form in which a snapshot would hold them
(``MetadataImage`` and its parts).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.messages.delegation_token_record import DelegationTokenRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.messages.register_controller_record import RegisterControllerRecord
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.protocol import ConfigResourceType
from kwire.uuid import Uuid

#: The feature that decides which records, at which versions, a cluster writes.
METADATA_VERSION = "metadata.version"

#: ``ConfigResource.Type``: number -> name, of those that can have configs.
CONFIG_TYPES: Final = {int(one): one.name for one in ConfigResourceType if one}
TOPIC_RESOURCE, BROKER_RESOURCE = map(int, (ConfigResourceType.TOPIC, ConfigResourceType.BROKER))

#: The entity that a quota is for: ((entity type, name or None for the default), ...), sorted.
QuotaEntity = tuple[tuple[str, str | None], ...]


@dataclass(slots=True)
class Image:
    """The state of one cluster before ``next_offset``. :func:`kwire.cluster.fold.apply` changes it
    in place.
    """

    next_offset: int = 0
    epoch: int = -1
    features: dict[str, int] = field(default_factory=dict)
    topics: dict[Uuid, str] = field(default_factory=dict)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)
    partitions: dict[Uuid, dict[int, PartitionRecord]] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    brokers: dict[int, RegisterBrokerRecord] = field(default_factory=dict)
    controllers: dict[int, RegisterControllerRecord] = field(default_factory=dict)
    acls: dict[Uuid, AccessControlEntryRecord] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    scram: dict[tuple[int, str], UserScramCredentialRecord] = field(default_factory=dict)
    tokens: dict[str, DelegationTokenRecord] = field(default_factory=dict)
    next_producer_id: int = -1

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version, 0 before the first record of it."""
        return self.features.get(METADATA_VERSION, 0)
