"""Lists the permissions that Kafka's brokers and controllers require, by API (``KafkaApis``,
``ControllerApis``).

A row is one request that needs permissions. Each of them is necessary, and together they are
enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kwire.uuid import METADATA_TOPIC_ID

LOG, TOPIC, OTHER_TOPIC, GROUP = "__cluster_metadata", "mine", "others", "readers"
TRANSACTION = "payments"
TOPIC_FAILED, GROUP_FAILED, CLUSTER_FAILED, TRANSACTION_FAILED = 29, 30, 31, 53

#: (operation, resource type, resource name)
Need = tuple[str, str, str]


@dataclass(frozen=True)
class Row:
    """A request of the newest version and what it takes. ``hidden``: who may not is not refused,
    but shown nothing of this name.

    ``refused``: with which error. ``instead``: permissions of which each is enough.
    """

    api_key: int
    needs: tuple[Need, ...]
    fields: dict[str, Any] = field(default_factory=dict)
    refused: int = CLUSTER_FAILED
    hidden: str | None = None
    instead: tuple[Need, ...] = ()


def topic(*operations: str, name: str = TOPIC) -> tuple[Need, ...]:
    return tuple((operation, "TOPIC", name) for operation in operations)


def group(operation: str) -> Need:
    return (operation, "GROUP", GROUP)


def transaction(operation: str) -> tuple[Need, ...]:
    return ((operation, "TRANSACTIONAL_ID", TRANSACTION),)


def cluster(operation: str) -> tuple[Need, ...]:
    return ((operation, "CLUSTER", "kafka-cluster"),)


_OF_LOG: Final = {
    "topic_id": METADATA_TOPIC_ID,
    "partitions": [{"partition": 0, "partition_max_bytes": 1000}],
}
_ACL: Final = {
    "resource_type": 2,
    "resource_name": "x",
    "resource_pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_ANY_ACL: Final = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
_ANY_ACL_OF: Final = _ANY_ACL | {
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
}
_KEY: Final = {"name": "retention.ms", "value": "1000"}
_TOPIC_CONFIG: Final = {"resource_type": 2, "resource_name": TOPIC, "configs": [_KEY]}
_NEW: Final = {"name": "new", "num_partitions": 1, "replication_factor": 1}
_OF_GROUP: Final = {"resource_type": 32, "resource_name": GROUP}
_SALT: Final = {
    "name": "x",
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"x",
    "salted_password": b"x" * 32,
}

_STATE: Final = {
    "group_id": GROUP,
    "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [{"partition": 0}]}],
}

#: On listeners for clients; keys that are on both kinds hold for both.
CLIENTS: Final = (
    Row(1, topic("READ", name=LOG), {"replica_id": -1, "topics": [_OF_LOG]}, TOPIC_FAILED),
    Row(
        2,
        topic("DESCRIBE"),
        {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [{"timestamp": -1}]}]},
        TOPIC_FAILED,
    ),
    Row(3, topic("DESCRIBE"), {"topics": [{"name": TOPIC}]}, TOPIC_FAILED),
    Row(3, topic("DESCRIBE"), {"topics": None}, hidden=TOPIC),
    Row(
        8,
        (group("READ"), *topic("READ", name=LOG)),
        {
            "group_id": GROUP,
            "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [{"committed_offset": 1}]}],
        },
        TOPIC_FAILED,
    ),
    Row(9, (group("DESCRIBE"),), {"groups": [{"group_id": GROUP, "topics": []}]}, GROUP_FAILED),
    Row(
        9,
        (group("DESCRIBE"), *topic("DESCRIBE", name=LOG)),
        {
            "groups": [
                {
                    "group_id": GROUP,
                    "topics": [{"topic_id": METADATA_TOPIC_ID, "partition_indexes": [0]}],
                }
            ]
        },
        TOPIC_FAILED,
    ),
    Row(10, (group("DESCRIBE"),), {"coordinator_keys": [GROUP]}, GROUP_FAILED),
    Row(
        11,
        (group("READ"),),
        {"group_id": GROUP, "session_timeout_ms": 1, "protocol_type": "consumer"},
        GROUP_FAILED,
    ),
    Row(12, (group("READ"),), {"group_id": GROUP}, GROUP_FAILED),
    Row(13, (group("READ"),), {"group_id": GROUP, "members": [{"member_id": "m"}]}, GROUP_FAILED),
    Row(
        14,
        (group("READ"),),
        {"group_id": GROUP, "protocol_type": "consumer", "protocol_name": "range"},
        GROUP_FAILED,
    ),
    Row(15, (group("DESCRIBE"),), {"groups": [GROUP]}, GROUP_FAILED),
    Row(16, (group("DESCRIBE"),), hidden=GROUP, instead=cluster("DESCRIBE")),
    Row(
        19, topic("CREATE", name="new"), {"topics": [_NEW]}, TOPIC_FAILED, instead=cluster("CREATE")
    ),
    Row(20, topic("DELETE"), {"topics": [{"name": TOPIC}], "timeout_ms": 10_000}, TOPIC_FAILED),
    Row(
        23,
        topic("DESCRIBE"),
        {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [{}]}]},
        TOPIC_FAILED,
        instead=cluster("CLUSTER_ACTION"),
    ),
    Row(
        27,
        cluster("CLUSTER_ACTION"),
        {"markers": [{"producer_id": 7, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]},
        instead=cluster("ALTER"),
    ),
    Row(29, cluster("DESCRIBE"), _ANY_ACL_OF),
    Row(30, cluster("ALTER"), {"creations": [_ACL]}),
    Row(31, cluster("ALTER"), {"filters": [_ANY_ACL_OF]}),
    Row(
        32,
        topic("DESCRIBE_CONFIGS"),
        {"resources": [{"resource_type": 2, "resource_name": TOPIC}]},
        TOPIC_FAILED,
    ),
    Row(
        32, cluster("DESCRIBE_CONFIGS"), {"resources": [{"resource_type": 4, "resource_name": ""}]}
    ),
    Row(32, (("DESCRIBE_CONFIGS", "GROUP", GROUP),), {"resources": [_OF_GROUP]}, GROUP_FAILED),
    Row(33, topic("ALTER_CONFIGS"), {"resources": [_TOPIC_CONFIG]}, TOPIC_FAILED),
    Row(33, cluster("ALTER_CONFIGS"), {"resources": [{"resource_type": 4, "resource_name": ""}]}),
    Row(
        34,
        cluster("ALTER"),
        {"dirs": [{"path": "/", "topics": [{"name": TOPIC, "partitions": [0]}]}]},
    ),
    Row(35, cluster("DESCRIBE")),
    Row(37, topic("ALTER"), {"topics": [{"name": TOPIC, "count": 3}]}, TOPIC_FAILED),
    Row(42, (group("DELETE"),), {"groups_names": [GROUP]}, GROUP_FAILED),
    Row(43, cluster("ALTER"), {"topic_partitions": [{"topic": TOPIC, "partitions": [0]}]}),
    Row(44, topic("ALTER_CONFIGS"), {"resources": [_TOPIC_CONFIG]}, TOPIC_FAILED),
    Row(44, (("ALTER_CONFIGS", "GROUP", GROUP),), {"resources": [_OF_GROUP]}, GROUP_FAILED),
    Row(45, cluster("ALTER"), {"topics": [{"name": TOPIC, "partitions": [{"replicas": [7]}]}]}),
    Row(46, cluster("DESCRIBE"), {"topics": None}),
    Row(47, (group("DELETE"),), {"group_id": GROUP}, GROUP_FAILED),
    Row(
        47,
        (group("DELETE"), *topic("READ", name=LOG)),
        {"group_id": GROUP, "topics": [{"name": LOG, "partitions": [{"partition_index": 0}]}]},
        TOPIC_FAILED,
    ),
    Row(48, cluster("DESCRIBE_CONFIGS"), {"components": []}),
    Row(
        49,
        cluster("ALTER_CONFIGS"),
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "x"}],
                    "ops": [{"key": "request_percentage", "value": 1.0}],
                }
            ]
        },
    ),
    Row(50, cluster("DESCRIBE"), {"users": [{"name": "x"}]}),
    Row(51, cluster("ALTER"), {"upsertions": [_SALT]}),
    Row(
        55,
        cluster("DESCRIBE"),
        {"topics": [{"topic_name": LOG, "partitions": [{"partition_index": 0}]}]},
    ),
    Row(
        57,
        cluster("ALTER"),
        {
            "feature_updates": [
                {"feature": "kraft.version", "max_version_level": 1, "upgrade_type": 1}
            ]
        },
    ),
    # Of brokers; those of clients are in the tests of the API.
    Row(24, cluster("CLUSTER_ACTION")),
    Row(65, transaction("DESCRIBE"), {"transactional_ids": [TRANSACTION]}, TRANSACTION_FAILED),
    Row(61, topic("READ"), {"topics": [{"name": TOPIC, "partition_indexes": [0]}]}, TOPIC_FAILED),
    Row(64, cluster("ALTER"), {"broker_id": 5}),
    Row(
        68,
        (group("READ"),),
        {"group_id": GROUP, "member_id": "m", "member_epoch": -1},
        GROUP_FAILED,
    ),
    Row(69, (group("DESCRIBE"),), {"group_ids": [GROUP]}, GROUP_FAILED),
    Row(94, cluster("ALTER"), {"controller_id": 5}),
    Row(74, cluster("DESCRIBE_CONFIGS"), {"resource_types": [2]}),
    Row(
        75,
        topic("DESCRIBE"),
        {"topics": [{"name": TOPIC}], "response_partition_limit": 10},
        TOPIC_FAILED,
    ),
    Row(80, cluster("ALTER")),
    Row(81, cluster("ALTER")),
    *(Row(key, cluster("CLUSTER_ACTION"), _STATE) for key in (83, 84, 85, 86, 87)),
)

#: On listeners for controllers only, or there otherwise than for clients.
CONTROLLERS: Final = (
    Row(1, cluster("CLUSTER_ACTION")),
    Row(52, cluster("CLUSTER_ACTION")),
    Row(53, cluster("CLUSTER_ACTION")),
    Row(54, cluster("CLUSTER_ACTION")),
    Row(56, cluster("CLUSTER_ACTION"), {"broker_id": 5, "broker_epoch": 1}),
    Row(59, cluster("CLUSTER_ACTION")),
    Row(60, cluster("ALTER"), {"endpoint_type": 2}),
    Row(62, cluster("CLUSTER_ACTION"), {"broker_id": 5, "cluster_id": "x"}),
    Row(63, cluster("CLUSTER_ACTION"), {"broker_id": 5}),
    Row(67, cluster("CLUSTER_ACTION"), {"broker_id": 5}),
    Row(70, cluster("CLUSTER_ACTION"), {"controller_id": 9}),
    Row(73, cluster("CLUSTER_ACTION"), {"broker_id": 5}),
    Row(82, cluster("CLUSTER_ACTION")),
)

#: APIs that need no permission, with the reason.
NO_QUESTION: Final = {
    17: "SaslHandshake comes before it is known who asks",
    18: "ApiVersions is for everybody",
    36: "SaslAuthenticate says who asks",
    38: "CreateDelegationToken: for whom is the question, in the tests of delegation tokens",
    39: "RenewDelegationToken: whose token it is decides",
    40: "ExpireDelegationToken: whose token it is decides",
    41: "DescribeDelegationToken: whose token it is decides",
    58: "Envelope is asked about with every request that may be inside",
    60: "DescribeCluster of brokers names nodes, as Metadata does",
    66: "ListTransactions: there is none to be shown or hidden",
}
#: APIs that are refused with and without permissions, in the same way.
REFUSED_TO_ALL: Final = {
    0: "Produce: no client writes here",
    21: "DeleteRecords: only a broker has records to delete",
    22: "InitProducerId: no client writes here",
    25: "AddOffsetsToTxn: no client writes here",
    26: "EndTxn: no client writes here",
    28: "TxnOffsetCommit: no client writes here",
    **dict.fromkeys((76, 77, 78, 79, 90, 91, 92), "there are no share groups"),
    **dict.fromkeys((88, 89, 93), "there are no streams groups"),
}
