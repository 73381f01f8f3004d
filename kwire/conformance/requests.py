"""Makes a small valid request of any API and version that changes nothing.

Values are the schema's defaults, but where a default would act on a node or on everything: broker 0
would be unregistered by an empty UnregisterBroker request.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.probe import request_of
from kwire.message import Message
from kwire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol import ApiKey

#: An id that no node has.
NO_NODE: Final = 2147483647
NO_NAME: Final = "kwire-conform-none"

_VALUES: Final[dict[ApiKey, dict[str, Any]]] = {
    # acks=0 has no response at all.
    ApiKey.PRODUCE: {"acks": 1, "timeout_ms": 1000},
    ApiKey.FETCH: {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 1024},
    ApiKey.LIST_OFFSETS: {"replica_id": -1},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {"replica_id": -1},
    ApiKey.FIND_COORDINATOR: {"key": NO_NAME, "coordinator_keys": [NO_NAME]},
    ApiKey.API_VERSIONS: {
        "client_software_name": "kwire-conform",
        "client_software_version": "1",
    },
    # A null list stands for all partitions.
    ApiKey.ELECT_LEADERS: {"topic_partitions": [], "timeout_ms": 1000},
    ApiKey.CREATE_TOPICS: {"timeout_ms": 1000},
    ApiKey.DELETE_TOPICS: {"timeout_ms": 1000},
    ApiKey.DELETE_RECORDS: {"timeout_ms": 1000},
    ApiKey.CREATE_PARTITIONS: {"timeout_ms": 1000},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"timeout_ms": 1000},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"timeout_ms": 1000},
    ApiKey.UPDATE_FEATURES: {"timeout_ms": 1000},
    # An empty transactional id is refused; with none a producer id would be used up.
    ApiKey.INIT_PRODUCER_ID: {"transactional_id": "", "transaction_timeout_ms": 1000},
    # Kafka closes the connection at UNKNOWN, the default, in a filter (AclBindingFilter.isUnknown).
    ApiKey.DESCRIBE_ACLS: {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    },
    # Kafka does not answer an empty list from version 4 on.
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "transactions": [
            AddPartitionsToTxnTransaction(
                transactional_id=NO_NAME,
                producer_id=1,
                verify_only=True,
                topics=[AddPartitionsToTxnTopic(name=NO_NAME, partitions=[0])],
            )
        ],
        "v3_and_below_transactional_id": NO_NAME,
        "v3_and_below_producer_id": 1,
    },
    ApiKey.UNREGISTER_BROKER: {"broker_id": NO_NODE},
    ApiKey.UNREGISTER_CONTROLLER: {"controller_id": NO_NODE},
    ApiKey.ALTER_PARTITION: {"broker_id": NO_NODE},
    ApiKey.ALLOCATE_PRODUCER_IDS: {"broker_id": NO_NODE},
    ApiKey.BROKER_HEARTBEAT: {"broker_id": NO_NODE},
    # The empty cluster id is that of no cluster.
    ApiKey.BROKER_REGISTRATION: {"broker_id": NO_NODE, "cluster_id": ""},
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: {"broker_id": NO_NODE},
    ApiKey.ADD_RAFT_VOTER: {"cluster_id": NO_NAME, "voter_id": NO_NODE, "timeout_ms": 1000},
    ApiKey.REMOVE_RAFT_VOTER: {"cluster_id": NO_NAME, "voter_id": NO_NODE},
    ApiKey.UPDATE_RAFT_VOTER: {"cluster_id": NO_NAME, "voter_id": NO_NODE},
    ApiKey.VOTE: {"cluster_id": NO_NAME},
    ApiKey.BEGIN_QUORUM_EPOCH: {"cluster_id": NO_NAME},
    ApiKey.END_QUORUM_EPOCH: {"cluster_id": NO_NAME},
    ApiKey.FETCH_SNAPSHOT: {"cluster_id": NO_NAME},
}
#: APIs whose smallest request changes the cluster: it registers a controller, issues a token.
CHANGING: Final = frozenset({ApiKey.CONTROLLER_REGISTRATION, ApiKey.CREATE_DELEGATION_TOKEN})


def small_request(api: ApiKey, version: int) -> Message:
    """Return a request that can be encoded at ``version``."""
    form = request_of(api)
    fields = {field.attr: field for field in form.fields()}
    values = {
        name: value
        for name, value in _VALUES.get(api, {}).items()
        if name in fields and (fields[name].at(version) or fields[name].ignorable)
    }
    return form(**values)
