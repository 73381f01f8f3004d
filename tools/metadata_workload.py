"""Makes a real cluster write every kind of metadata record that it can write, once or a few times.

The steps are administration requests, brokers that crash, return and are unregistered, and voters
that are removed and added. It does not read the log.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kwire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kwire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kwire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kwire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.init_producer_id_request import InitProducerIdRequest
from kwire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kwire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tools.admin import Admin
from tools.kafka import Cluster, Node
from tools.metadata_nodes import broker_comes_and_goes, voters

#: Record types that :func:`write_everything` makes a cluster of :func:`node_properties` write. The
#: rest are records of Kafka 3.x (FenceBroker, UnfenceBroker, ZkMigrationState, RemoveFeatureLevel),
#: AbortTransaction, which takes a controller that dies in the middle of its first transaction, and
#: UnregisterController of Kafka 4.4.
RECORD_TYPES = frozenset(
    {
        "AccessControlEntryRecord",
        "BeginTransactionRecord",
        "BrokerRegistrationChangeRecord",
        "ClearElrRecord",
        "ClientQuotaRecord",
        "ConfigRecord",
        "DelegationTokenRecord",
        "EndTransactionRecord",
        "FeatureLevelRecord",
        "NoOpRecord",
        "PartitionChangeRecord",
        "PartitionRecord",
        "ProducerIdsRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "RemoveAccessControlEntryRecord",
        "RemoveDelegationTokenRecord",
        "RemoveTopicRecord",
        "RemoveUserScramCredentialRecord",
        "TopicRecord",
        "UnregisterBrokerRecord",
        "UserScramCredentialRecord",
    }
)
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
_TIMEOUT_MS = 20_000
_USER = ("admin", "admin-secret")


def node_properties(node: Node) -> Mapping[str, str]:
    """The properties that a node needs for every step: an authorizer, delegation tokens and a
    listener whose clients may have them, a short session timeout of brokers. For
    ``kafka(node_properties=..., log_dirs=2)``.
    """
    values = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{_USER[0]}",
        "delegation.token.secret.key": "not-much-of-a-secret",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
    if node.is_broker():
        jaas = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            f' user_{_USER[0]}="{_USER[1]}";'
        )
        values |= {
            "listeners": f"BROKER://{node.broker_address},TOKENS://{_tokens_address(node)}",
            "listener.security.protocol.map": (
                "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,TOKENS:SASL_PLAINTEXT"
            ),
            "listener.name.tokens.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.tokens.plain.sasl.jaas.config": jaas,
        }
    return values


def _tokens_address(node: Node) -> str:
    # A broker has no use for the port that was found for its controller.
    return node.controller_address


def write_everything(cluster: Cluster) -> None:
    """Run every step against a cluster of :func:`node_properties`: two brokers at least, three
    dynamic voters, authorizer.

    It leaves all nodes running. Raises AdminError, ProcessError.
    """
    brokers = [node for node in cluster.nodes if node.is_broker()]
    with Admin([node.broker_address for node in brokers]) as admin:
        topics(admin, brokers)
        configs(admin, brokers)
        acls(admin)
        quotas(admin)
        scram(admin)
        features(admin)
        producer_ids(admin)
        reassignment(admin, brokers)
        directories(brokers[0])
        delegation_tokens(brokers[0])
        removed_topics(admin)
        broker_comes_and_goes(cluster, admin, brokers)
    voters(cluster)


def write_some(cluster: Cluster) -> None:
    """Run the steps that any cluster with an authorizer and a broker supports. Raises
    AdminError.
    """
    brokers = [node for node in cluster.nodes if node.is_broker()]
    with Admin([node.broker_address for node in brokers]) as admin:
        topics(admin, brokers)
        configs(admin, brokers)
        acls(admin)
        quotas(admin)
        scram(admin)
        producer_ids(admin)
        removed_topics(admin)


def topics(admin: Admin, brokers: list[Node]) -> None:
    """Create topics with configs, on one broker and on all, with a number of partitions or an
    assignment; add partitions. Writes TOPIC, PARTITION, CONFIG.
    """
    ids = [node.node_id for node in brokers]
    by_hand = [
        CreatableReplicaAssignment(partition_index=0, broker_ids=ids),
        CreatableReplicaAssignment(partition_index=1, broker_ids=ids[::-1]),
    ]
    config = [
        CreatableTopicConfig(name="cleanup.policy", value="compact"),
        CreatableTopicConfig(name="retention.ms", value="86400000"),
    ]
    created = [
        CreatableTopic(
            name="orders", num_partitions=3, replication_factor=len(ids), configs=config
        ),
        CreatableTopic(
            name="by-hand", num_partitions=-1, replication_factor=-1, assignments=by_hand
        ),
        *(
            CreatableTopic(name=f"passing-{number}", num_partitions=1, replication_factor=1)
            for number in range(5)
        ),
    ]
    admin.send(CreateTopicsRequest(topics=created, timeout_ms=_TIMEOUT_MS), accept={36})
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="orders", count=5, assignments=None)],
        timeout_ms=_TIMEOUT_MS,
    )
    admin.send(more, accept={37})


def configs(admin: Admin, brokers: list[Node]) -> None:
    """Set, change and remove configs of topics, of a broker, and of all brokers. Writes CONFIG, and
    CLEAR_ELR for min.insync.replicas.
    """
    alter(admin, _TOPIC, "orders", {"min.insync.replicas": "2", "segment.bytes": "1048576"})
    alter(admin, _TOPIC, "orders", {"min.insync.replicas": None})
    alter(admin, _BROKER, str(brokers[0].node_id), {"log.cleaner.threads": "2"})
    alter(admin, _BROKER, "", {"message.max.bytes": "2097152"})


def alter(admin: Admin, kind: int, name: str, values: Mapping[str, str | None]) -> None:
    """Set configs of a resource; None removes one."""
    changes = [
        AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    admin.send(IncrementalAlterConfigsRequest(resources=[resource]))


def acls(admin: Admin) -> None:
    """Create and delete ACLs. Writes ACCESS_CONTROL_ENTRY and REMOVE_ACCESS_CONTROL_ENTRY."""
    topic, literal, prefixed, read, allow = 2, 3, 4, 3, 3
    created = [
        AclCreation(
            resource_type=topic,
            resource_name=name,
            resource_pattern_type=pattern,
            principal="User:alice",
            host="*",
            operation=read,
            permission_type=allow,
        )
        for name, pattern in (("orders", literal), ("pay", prefixed))
    ]
    admin.send(CreateAclsRequest(creations=created))
    gone = DeleteAclsFilter(
        resource_type_filter=topic,
        resource_name_filter="pay",
        pattern_type_filter=prefixed,
        principal_filter="User:alice",
        host_filter="*",
        operation=read,
        permission_type=allow,
    )
    admin.send(DeleteAclsRequest(filters=[gone]))


def quotas(admin: Admin) -> None:
    """Set quotas of a user and of the default client, and remove them. Writes CLIENT_QUOTA."""
    for entity_name, remove in (("alice", False), (None, False), ("alice", True)):
        entry = EntryData(
            entity=[EntityData(entity_type="user", entity_name=entity_name)],
            ops=[OpData(key="request_percentage", value=12.5, remove=remove)],
        )
        admin.send(AlterClientQuotasRequest(entries=[entry]))


def scram(admin: Admin) -> None:
    """Set SCRAM credentials of both mechanisms, and delete one. Writes USER_SCRAM_CREDENTIAL."""
    for mechanism, size in ((1, 32), (2, 64)):
        new = ScramCredentialUpsertion(
            name="alice",
            mechanism=mechanism,
            iterations=4096,
            salt=bytes(range(16)),
            salted_password=b"s" * size,
        )
        admin.send(AlterUserScramCredentialsRequest(upsertions=[new]))
    admin.send(
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="alice", mechanism=2)]
        ),
        accept={91},
    )


def features(admin: Admin) -> None:
    """Lower a feature's level and raise it again. Writes FEATURE_LEVEL."""
    for level, kind in ((1, _SAFE_DOWNGRADE), (2, _UPGRADE)):
        update = FeatureUpdateKey(
            feature="transaction.version", max_version_level=level, upgrade_type=kind
        )
        admin.send(UpdateFeaturesRequest(feature_updates=[update]))


def producer_ids(admin: Admin) -> None:
    """Start a producer: its broker asks the controller for a block of producer ids. Writes
    PRODUCER_IDS.
    """
    admin.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=10_000))


def reassignment(admin: Admin, brokers: list[Node]) -> None:
    """Reassign a partition, and elect its preferred leader. Writes every kind of PARTITION_CHANGE
    of a reassignment.
    """
    for replicas in (
        [brokers[1].node_id],
        [brokers[0].node_id],
        [brokers[0].node_id, brokers[1].node_id],
    ):
        partition = ReassignablePartition(partition_index=0, replicas=replicas)
        topic = ReassignableTopic(name="by-hand", partitions=[partition])
        admin.send(
            AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), accept={85}
        )
        time.sleep(1)
    elected = ElectLeadersRequest(
        election_type=0, topic_partitions=[TopicPartitions(topic="orders", partitions=[0, 1])]
    )
    admin.send(elected, accept={84})  # ELECTION_NOT_NEEDED


def directories(broker: Node) -> None:
    """Move a replica to another directory of its broker, which reports that to the controller.
    Writes PARTITION_CHANGE with directories.
    """
    with Admin([broker.broker_address]) as admin:
        for directory in (broker.directory / "data-2", broker.log_dir):
            moved = AlterReplicaLogDirTopic(name="orders", partitions=[0, 1, 2])
            admin.send(
                AlterReplicaLogDirsRequest(
                    dirs=[AlterReplicaLogDir(path=str(directory), topics=[moved])]
                )
            )
            time.sleep(0.5)


def delegation_tokens(broker: Node) -> None:
    """Create, renew and expire a delegation token. Writes DELEGATION_TOKEN and
    REMOVE_DELEGATION_TOKEN.
    """
    with Admin([_tokens_address(broker)], login=_USER) as admin:
        token = admin.send(
            CreateDelegationTokenRequest(
                owner_principal_type="User", owner_principal_name=_USER[0], max_lifetime_ms=-1
            )
        )
        admin.send(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=3_600_000))
        admin.send(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1))


def removed_topics(admin: Admin) -> None:
    """Delete topics. Writes REMOVE_TOPIC."""
    gone = [DeleteTopicState(name=f"passing-{number}") for number in range(3)]
    admin.send(DeleteTopicsRequest(topics=gone, timeout_ms=_TIMEOUT_MS), accept={3})
