"""Names Kafka's numbers: error codes, API keys, ACL enums, levels of features, topics.

    >>> from kwire.protocol import ApiKey, ErrorCode
    >>> ErrorCode(3).name, ErrorCode(3).retriable
    ('UNKNOWN_TOPIC_OR_PARTITION', True)
    >>> ApiKey.FETCH.versions, sorted(ApiKey.FETCH.listeners)
    (range(4, 19), ['broker', 'controller'])

The tables are generated from facts that ``python -m tools.import_kafka`` reads from Kafka's jars
(``schemas/facts``). The package imports the standard library and ``kwire.uuid`` alone; schemas of
messages are in ``kwire.messages``.
"""

from __future__ import annotations

from kwire.protocol.acl import (
    SUPPORTED_OPERATIONS,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from kwire.protocol.api_key import ApiKey
from kwire.protocol.config import ConfigResourceType, ConfigSource, ConfigType
from kwire.protocol.error_code import ErrorCode, error_name, known_error
from kwire.protocol.feature import Feature, FeatureLevel
from kwire.protocol.features import FEATURES
from kwire.protocol.group import GroupState, GroupType
from kwire.protocol.leader_recovery_state import LeaderRecoveryState
from kwire.protocol.metadata_version import METADATA_VERSION, MetadataVersion
from kwire.protocol.numbers import SCRAM_MECHANISMS, name_of
from kwire.protocol.scram import ScramMechanism
from kwire.protocol.security_protocol import SecurityProtocol
from kwire.protocol.topic import (
    CLUSTER_METADATA_PARTITION,
    CLUSTER_METADATA_TOPIC,
    METADATA_TOPIC_ID,
)

__all__ = [
    "CLUSTER_METADATA_PARTITION",
    "CLUSTER_METADATA_TOPIC",
    "FEATURES",
    "METADATA_TOPIC_ID",
    "METADATA_VERSION",
    "SCRAM_MECHANISMS",
    "SUPPORTED_OPERATIONS",
    "AclOperation",
    "ApiKey",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigType",
    "ErrorCode",
    "Feature",
    "FeatureLevel",
    "GroupState",
    "GroupType",
    "LeaderRecoveryState",
    "MetadataVersion",
    "PatternType",
    "PermissionType",
    "ResourceType",
    "ScramMechanism",
    "SecurityProtocol",
    "error_name",
    "known_error",
    "name_of",
]
