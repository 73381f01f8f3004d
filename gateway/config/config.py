# tidy: file-length: a table with a row for each key, and few functions
"""Holds the configuration of ``kwire serve``: one frozen value.

Names are those of Kafka's ``server.properties`` where the meaning is the same; aliases are those of
KIP-595. ``gateway.config.loading`` reads the texts of the keys from flags, environment and file,
and ``gateway.config.checks`` checks the value as a whole. The packages that use a security protocol
or a directory check that it can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.base.address import Address
from gateway.base.migration_policy import MigrationPolicy
from gateway.base.sizes import KIB, MIB
from gateway.config.key import INT_MAX, LONG_MAX, key
from gateway.config.security import of_listener
from gateway.config.values import (
    ENVIRONMENT_PREFIX,
    LEADER_SELECTOR,
    LISTENER_MAX_CONNECTIONS,
    RACK_AWARE,
    SECURITY_PROTOCOLS,
    SOURCE_NAMES,
    Assignor,
    ConfigError,
    Listener,
    SourceKind,
)

__all__ = [
    "ENVIRONMENT_PREFIX", "INT_MAX", "KIB", "MIB", "SECURITY_PROTOCOLS",
    "Config", "ConfigError", "Listener", "SourceKind",
]  # fmt: skip

_CONTROLLER_PORT: Final = 9093
_BROKER: Final = "broker"
_CONTROLLER: Final = "controller"
#: The roles that ``process.roles`` may name, in any order.
ROLES: Final = (_BROKER, _CONTROLLER, f"{_BROKER},{_CONTROLLER}", f"{_CONTROLLER},{_BROKER}")


def _client_listener() -> tuple[Listener, ...]:
    return (Listener("PLAINTEXT", "127.0.0.1", 9092),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every key of the server; ``node_id`` is the key ``node.id``, and so on."""

    # --- the source, listeners, security and the management listener ---

    node_id: int = key(
        1,
        "Id of this node, the only broker that clients see.",
    )
    source: str = key(
        "auto",
        "Source of the metadata partition: 'controller' is a KRaft quorum that this node is "
        "part of, 'observer' a copy of another quorum's log, 'log' follows log.dirs, 'sample'"
        " is the log in the package. 'auto' is 'log' where log.dirs is set, 'observer' where "
        "controller.quorum.bootstrap.servers is set, else 'controller'. 'own' and 'quorum' "
        "are older names of 'controller' and 'observer'.",
        choices=("auto", *SOURCE_NAMES),
    )
    process_roles: str = key(
        "auto",
        "Roles of this node: broker, controller, or broker,controller. A broker keeps the records "
        "of topics, in data.dir; alone it belongs to the controllers of "
        "controller.quorum.bootstrap.servers. 'auto' is broker,controller on a quorum of one node "
        "with one process, else controller.",
        choices=("auto", *ROLES),
    )
    log_retention_check_interval_ms: int = key(
        300_000,
        "Interval of the check for segments of topics that retention deletes.",
        unit="ms",
        at_least=1,
        at_most=LONG_MAX,
    )
    replica_lag_time_max_ms: int = key(
        30_000,
        "How long a follower may be without all records of its leader before it leaves the ISR.",
        unit="ms",
        at_least=1,
        at_most=LONG_MAX,
    )
    initial_broker_registration_timeout_ms: int = key(
        60_000,
        "Time in which the broker must be registered with the controllers; then the process ends.",
        unit="ms",
        at_least=1,
    )
    broker_rack: str | None = key(
        None,
        "Rack of this broker: the controller spreads the replicas of a partition over racks.",
    )
    replica_selector_class: str = key(
        "",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector: the leader sends consumers with "
        "client.rack to a follower in their rack. Default: to none.",
        choices=("", LEADER_SELECTOR, RACK_AWARE),
    )
    inter_broker_listener_name: str | None = key(
        None,
        "Name of the listener at which this broker fetches from the others; all of them have one "
        "of this name. Default: the first of listeners that is for clients.",
    )
    replica_fetch_wait_max_ms: int = key(
        500,
        "How long the leader of partitions may wait for records before it answers a follower. "
        "Less than replica.lag.time.max.ms.",
        unit="ms",
        at_least=0,
    )
    replica_fetch_min_bytes: int = key(
        1,
        "Size of the records for which the leader answers a follower at once.",
        unit="bytes",
        at_least=1,
    )
    replica_fetch_max_bytes: int = key(
        MIB,
        "Size of the records of one partition in an answer to a follower; a batch that is larger "
        "comes alone.",
        unit="bytes",
        at_least=1,
    )
    replica_fetch_response_max_bytes: int = key(
        10 * MIB,
        "Size of the records in an answer to a follower.",
        unit="bytes",
        at_least=1,
    )
    replica_fetch_backoff_ms: int = key(
        1000,
        "Pause of a follower after an error: of a partition, or of the connection to the leader.",
        unit="ms",
        at_least=0,
    )
    replica_socket_timeout_ms: int = key(
        30_000,
        "How long a follower waits for an answer, beside replica.fetch.wait.max.ms.",
        unit="ms",
        at_least=1,
    )
    broker_heartbeat_interval_ms: int = key(
        2000,
        "Interval of the broker's heartbeats to the controller.",
        unit="ms",
        at_least=1,
    )
    log_dirs: tuple[Path, ...] = key(
        tuple,
        "With process.roles the directories of this node's logs, comma separated; default: "
        "data.dir. Without it the metadata log to serve, read only: the __cluster_metadata-0 "
        "directory, its parent, or one .log or .checkpoint file.",
        aliases=("log.dir",),
    )
    snapshot_prefix: bool = key(
        True,
        "Serve the records of the oldest snapshot before those of a log that starts after it.",
    )
    state_dir: Path | None = key(  # noqa: RUF009
        None,
        "Directory for committed offsets of groups. Default: kwire in the user's state "
        "directory, or in data.dir.",
    )

    listeners: tuple[Listener, ...] = key(
        _client_listener,
        "Addresses to listen at: NAME://HOST:PORT, comma separated; port 0 picks a free port."
        " With source=controller a controller listener is added if there is none.",
    )
    advertised_listeners: tuple[Listener, ...] = key(
        tuple,
        "Addresses that clients are told to connect to, where they differ from listeners. "
        "Port 0: the port of the listener.",
    )
    listener_security_protocol_map: Mapping[str, str] = key(
        lambda: {"CONTROLLER": "PLAINTEXT", **{name: name for name in SECURITY_PROTOCOLS}},
        "Security protocol of each listener: NAME:PROTOCOL, comma separated.",
    )
    workers: int = key(
        1,
        "Number of processes that serve clients at the same ports: the node, which alone writes, "
        "coordinates groups and listens for controllers, and others that read its log. Linux only.",
        at_least=1,
        at_most=256,
    )
    socket_listen_backlog_size: int = key(
        1024,
        "Maximum number of connections that wait to be accepted.",
        at_least=1,
        at_most=65535,
    )
    socket_send_buffer_bytes: int = key(
        -1,
        "SO_SNDBUF of connections. -1: the system's default.",
        unit="bytes",
        at_least=-1,
    )
    socket_receive_buffer_bytes: int = key(
        -1,
        "SO_RCVBUF of connections. -1: the system's default.",
        unit="bytes",
        at_least=-1,
    )
    authorizer_class_name: str | None = key(
        None,
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer authorizes by super.users "
        "and the ACLs of the log. Default: all principals may do everything.",
    )
    super_users: str = key(
        "",
        "Principals that may do everything regardless of ACLs: User:NAME, separated by semicolons.",
    )
    allow_everyone_if_no_acl_found: bool = key(
        False,
        "Allow all principals to use a resource that has no ACL.",
    )
    connection_failed_authentication_delay_ms: int = key(
        100,
        "Delay before an authentication failure is answered.",
        unit="ms",
        at_most=60_000,
    )
    sasl_server_max_receive_size: int = key(
        512 * KIB,
        "Maximum size of a request before authentication is complete.",
        unit="bytes",
        at_least=64,
    )
    delegation_token_max_lifetime_ms: int = key(
        7 * 24 * 3_600_000,
        "Maximum lifetime of a delegation token, renewals included.",
        unit="ms",
        at_least=1,
        at_most=LONG_MAX,
    )
    delegation_token_expiry_time_ms: int = key(
        24 * 3_600_000,
        "Time until a delegation token expires if it is not renewed.",
        unit="ms",
        at_least=1,
        at_most=LONG_MAX,
    )
    delegation_token_expiry_check_interval_ms: int = key(
        3_600_000,
        "Interval at which the controller removes expired delegation tokens.",
        unit="ms",
        at_least=1,
        at_most=LONG_MAX,
    )
    security: Mapping[str, str] = field(default_factory=dict, repr=False)
    management_listener: str | None = key(
        None,
        "HOST:PORT of /metrics, /livez, /readyz and /status over HTTP; port 0 picks a free "
        "port. Default: not served.",
    )
    management_cluster_name: str | None = key(
        None,
        "What the page calls the cluster. Default: its id alone.",
    )
    management_allowed_hosts: frozenset[str] = key(
        frozenset,
        "Host names that requests to the management listener may name, besides localhost and "
        "IP addresses: names, .DOMAIN for all names below it, * for any; comma separated.",
    )

    # --- the quorum of which this node is part, or that it observes; its log and audit log ---

    controller_listener_names: tuple[str, ...] = key(
        lambda: ("CONTROLLER",),
        "Names of the controller listeners, comma separated. Raft requests are served only "
        "there; nodes of the quorum connect to the first. With source=observer, other observers "
        "follow this one there.",
    )
    controller_quorum_voters: Mapping[int, Address] = key(
        dict,
        "Voters of a static quorum, the same on all nodes: ID@HOST:PORT, comma separated. "
        "Without them the log holds the voters (KIP-853), and a new node is a quorum of one.",
        aliases=("quorum.voters",),
    )
    controller_quorum_election_timeout_ms: int = key(
        1000,
        "Time without a leader, or without enough votes, before the next election; a random "
        "part is added.",
        unit="ms",
        at_least=50,
        aliases=("quorum.election.timeout.ms",),
    )
    controller_quorum_election_backoff_max_ms: int = key(
        1000,
        "Maximum pause between a lost election and the next one.",
        unit="ms",
        at_least=1,
        aliases=("quorum.election.backoff.max.ms",),
    )
    controller_quorum_campaign: bool = key(
        True,
        "Stand for election. If false, this voter replicates and votes but never leads.",
    )
    controller_quorum_auto_join_enable: bool = key(
        False,
        "Add this node to the voters of a dynamic quorum (KIP-1186).",
    )
    metadata_max_idle_interval_ms: int = key(
        500,
        "Interval at which the leader writes a NoOpRecord when it writes nothing else. 0: never.",
        unit="ms",
    )
    broker_session_timeout_ms: int = key(
        9000,
        "Time without a heartbeat after which a registered broker is fenced.",
        unit="ms",
        at_least=1,
    )
    auto_leader_rebalance_enable: bool = key(
        True,
        "Elect the preferred leader of a partition when it can lead again.",
    )
    leader_imbalance_check_interval_seconds: int = key(
        300,
        "Interval of the check for partitions that their preferred replica does not lead.",
        unit="s",
        at_least=1,
    )
    unclean_leader_election_interval_ms: int = key(
        300_000,
        "Interval of the check for partitions without a leader that may elect one outside the ISR.",
        unit="ms",
        at_least=1,
    )
    metadata_audit_enable: bool = key(
        True,
        "Write an audit entry for each change that this node carries out as leader (topic "
        "__cluster_metadata_audit).",
    )
    metadata_audit_retention_bytes: int = key(
        100 * MIB,
        "Maximum size of the audit log; older segments are deleted. -1: unlimited.",
        unit="bytes",
        at_least=-1,
        at_most=LONG_MAX,
    )
    metadata_audit_retention_ms: int = key(
        90 * 24 * 3_600_000,
        "Maximum age of segments of the audit log. -1: unlimited.",
        unit="ms",
        at_least=-1,
        at_most=LONG_MAX,
    )
    metadata_audit_segment_bytes: int = key(
        16 * MIB,
        "Maximum size of a segment of the audit log.",
        unit="bytes",
        at_least=KIB,
        at_most=1024 * MIB,
    )
    controller_quorum_bootstrap_servers: tuple[Address, ...] = key(
        tuple,
        "Controllers of the quorum, HOST:PORT, comma separated. One that answers is enough to"
        " find the others.",
        aliases=("bootstrap.controller",),
    )
    data_dir: Path | None = key(  # noqa: RUF009
        None,
        "Directory of this node's metadata log, in Kafka's format; created if it does not exist. "
        "Default: the first of log.dirs with process.roles, else with source=controller a "
        "directory for node.id in the user's data directory.",
        aliases=("metadata.log.dir",),
    )
    command_config: Path | None = key(  # noqa: RUF009
        None,
        "File of client properties (security.protocol, ssl.*, sasl.*) for connections to the "
        "quorum.",
    )
    cluster_id: str | None = key(
        None,
        "Cluster id that the quorum must have. Default: the id that the quorum has at the "
        "first start.",
    )
    replica_id: int = key(
        -1,
        "Id under which the quorum lists this observer (kafka-metadata-quorum); no other node"
        " may have it. -1: not listed.",
        at_least=-1,
    )
    quorum_history: bool = key(
        True,
        "Fetch the log from offset 0 while the leader still has it, even if the leader offers"
        " a snapshot.",
    )
    controller_quorum_fetch_timeout_ms: int = key(
        2000,
        "Time without a response of the leader before another leader is looked for.",
        unit="ms",
        at_least=100,
        aliases=("quorum.fetch.timeout.ms",),
    )
    controller_quorum_request_timeout_ms: int = key(
        2000,
        "Timeout of connecting to a controller, and of each request.",
        unit="ms",
        at_least=100,
        aliases=("quorum.request.timeout.ms",),
    )
    controller_quorum_retry_backoff_ms: int = key(
        20,
        "First pause after a failed request to the quorum.",
        unit="ms",
        at_least=1,
        aliases=("quorum.retry.backoff.ms",),
    )
    controller_quorum_retry_backoff_max_ms: int = key(
        1000,
        "Maximum pause after failed requests to the quorum.",
        unit="ms",
        at_least=1,
        aliases=("quorum.retry.backoff.max.ms",),
    )
    controller_quorum_fetch_max_bytes: int = key(
        MIB,
        "Maximum record bytes in one Fetch from the leader; one whole batch is always returned.",
        unit="bytes",
        at_least=1,
    )
    controller_quorum_fetch_snapshot_max_bytes: int = key(
        MIB,
        "Maximum snapshot bytes in one FetchSnapshot from the leader.",
        unit="bytes",
        at_least=1,
    )
    metadata_log_fsync: bool = key(
        True,
        "Sync records to disk before clients see them. If false, a crash of the machine can "
        "lose records that clients have seen.",
    )
    metadata_log_segment_bytes: int = key(
        1024 * MIB,
        "Maximum size of a log segment.",
        unit="bytes",
        at_least=KIB,
    )
    metadata_log_segment_ms: int = key(
        604_800_000,
        "Maximum time before a new log segment is started.",
        unit="ms",
        at_least=1000,
    )
    metadata_log_max_record_bytes_between_snapshots: int = key(
        20 * MIB,
        "Record bytes after which a snapshot is written.",
        unit="bytes",
        at_least=1,
    )
    metadata_log_max_snapshot_interval_ms: int = key(
        3_600_000,
        "Time after which a snapshot is written if anything changed. 0: never.",
        unit="ms",
    )
    metadata_max_retention_bytes: int = key(
        100 * MIB,
        "Maximum size of segments and snapshots; older ones are deleted once a snapshot "
        "replaces them. -1: unlimited.",
        unit="bytes",
        at_least=-1,
    )
    metadata_max_retention_ms: int = key(
        604_800_000,
        "Maximum age of segments and snapshots; older ones are deleted once a snapshot "
        "replaces them. -1: unlimited.",
        unit="ms",
        at_least=-1,
    )

    # --- what clients can make the server hold: memory, connections, time and groups ---

    metadata_views_enable: bool = key(
        True,
        "Serve the view topics: __cluster_metadata.topics and others, entities as JSON.",
    )
    metadata_views_list: bool = key(
        False,
        "List the view topics among all topics. Otherwise they are found by name only, and the "
        "patterns of consumers do not match them.",
    )
    metadata_views_schemas_enable: bool = key(
        False,
        "Write keys and values of the view topics as Kafka Connect's JSON with schema.",
    )
    metadata_views_cache_bytes: int = key(
        64 * MIB,
        "Maximum size of the batches of view topics that are kept for further readers.",
        unit="bytes",
        at_least=MIB,
    )
    max_connections: int = key(
        20_000,
        "Maximum number of connections. A further one displaces a connection that has not "
        "authenticated, or is closed; nodes of the quorum are always accepted.",
        at_least=1,
    )
    max_connections_per_ip: int = key(
        INT_MAX,
        "Maximum number of connections from one address; further ones are closed.",
        at_least=1,
    )
    max_connections_per_ip_overrides: Mapping[str, int] = key(
        dict,
        "Limits of addresses that differ from max.connections.per.ip: ADDRESS:NUMBER, comma "
        "separated.",
    )
    first_request_timeout_ms: int = key(
        30_000,
        "Time in which a connection must authenticate or send a valid request.",
        unit="ms",
        at_least=100,
    )
    connections_max_idle_ms: int = key(
        600_000,
        "Time without any bytes after which a connection is closed.",
        unit="ms",
        at_least=100,
    )
    socket_request_max_bytes: int = key(
        16 * MIB,
        "Maximum size of a request; the connection of a larger one is closed.",
        unit="bytes",
        at_least=64,
    )
    first_request_max_bytes: int = key(
        512 * KIB,
        "Maximum size of the requests of a connection before its first valid one.",
        unit="bytes",
        at_least=64,
    )
    # A request is decoded in one step of the event loop, with about 1 us for each element: 10 to
    # 20 ms for this many, and 10 ms more to name the field where a fault is.
    request_max_elements: int = key(
        20_000,
        "Maximum number of array elements and unknown tagged fields in a request.",
        unit="elements",
        at_least=100,
    )
    request_receive_timeout_ms: int = key(
        60_000,
        "Time in which a request must be received completely, from its first byte.",
        unit="ms",
        at_least=100,
    )
    read_ahead_max_bytes: int = key(
        64 * KIB,
        "Maximum bytes read from a connection while its last request is unanswered.",
        unit="bytes",
        at_least=KIB,
    )
    output_buffer_max_bytes: int = key(
        MIB,
        "Unsent response bytes of a connection at which no further request of it is handled.",
        unit="bytes",
        at_least=KIB,
    )
    response_max_bytes: int = key(
        32 * MIB,
        "Size of a response that describes named resources at which the other resources are "
        "answered with an error.",
        unit="bytes",
        at_least=KIB,
    )
    buffers_max_bytes: int = key(
        256 * MIB,
        "Maximum memory for unfinished requests, unanswered requests and unsent responses of "
        "all connections; beyond it large holders are cut.",
        unit="bytes",
        at_least=MIB,
    )
    queued_max_request_bytes: int = key(
        64 * MIB,
        "Bytes of batches that wait for a slow disk, at which a broker takes no further one: its "
        "producers wait, those of one partition at half of it.",
        unit="bytes",
        at_least=MIB,
    )
    # Longer than the five minutes of max.poll.interval.ms, in which a busy Java consumer rightly
    # does not read.
    response_send_timeout_ms: int = key(
        360_000,
        "Time in which a client must read something of its response; then the connection is "
        "closed.",
        unit="ms",
        at_least=100,
    )
    auto_create_topics_enable: bool = key(
        True,
        "Whether a broker has topics created that producers and consumers ask for.",
    )
    num_partitions: int = key(
        1,
        "Partitions of a topic whose creator names no number.",
        at_least=1,
    )
    default_replication_factor: int = key(
        1,
        "Replicas of the partitions of a topic whose creator names no number.",
        at_least=1,
    )
    max_incremental_fetch_session_cache_slots: int = key(
        1000,
        "Maximum number of Fetch sessions; 0 keeps none, and clients name all partitions in every "
        "request.",
        at_least=0,
    )
    quota_window_num: int = key(
        11,
        "Number of windows of time in which clients are measured against their quotas.",
        at_least=1,
        at_most=1000,
    )
    quota_window_size_seconds: int = key(
        1,
        "Length of these windows; a client is throttled no longer for its request_percentage.",
        unit="s",
        at_least=1,
        at_most=3600,
    )
    controller_quota_window_num: int = key(
        11,
        "Number of windows whose quota of changes of partitions a client may use at once.",
        at_least=1,
        at_most=1000,
    )
    controller_quota_window_size_seconds: int = key(
        1,
        "Length of these windows.",
        unit="s",
        at_least=1,
        at_most=3600,
    )
    fetch_max_bytes: int = key(
        55 * MIB,
        "Maximum record bytes in a Fetch response, whatever the client asks; one whole batch "
        "always fits.",
        unit="bytes",
        at_least=KIB,
    )

    # Consumer groups (the classic protocol). Kafka waits three seconds so that a large application
    # starts in one rebalance; one partition has one reader. Not 0: kafka-python 3.0 may join,
    # rejoin at once and then wait for ever when the first answer comes too fast.
    group_initial_rebalance_delay_ms: int = key(
        250,
        "Time that the first rebalance of an empty group waits for more members.",
        unit="ms",
    )
    group_min_session_timeout_ms: int = key(
        6000,
        "Minimum session timeout of a group member.",
        unit="ms",
    )
    group_max_session_timeout_ms: int = key(
        1_800_000,
        "Maximum session timeout of a group member.",
        unit="ms",
    )
    group_max_size: int = key(
        INT_MAX,
        "Maximum number of members in a group.",
        at_least=1,
    )
    # Consumer groups of KIP-848, whose clients are told these by the server. Configs of a group
    # change them for that group.
    group_consumer_session_timeout_ms: int = key(
        45_000,
        "Session timeout of a member of a consumer group of KIP-848.",
        unit="ms",
        at_least=1,
    )
    group_consumer_heartbeat_interval_ms: int = key(
        5_000,
        "Interval of the heartbeats of such a member.",
        unit="ms",
        at_least=1,
    )
    group_consumer_assignment_interval_ms: int = key(
        1_000,
        "Minimum time between two assignments of such a group.",
        unit="ms",
    )
    group_consumer_assignors: tuple[Assignor, ...] = key(
        lambda: tuple(Assignor),
        "Assignors that members of such a group may ask for: uniform, range; comma separated. The "
        "first is for members that ask for none.",
    )
    group_consumer_migration_policy: MigrationPolicy = key(  # noqa: RUF009
        MigrationPolicy.BIDIRECTIONAL,
        "Which groups with members change their protocol when members of the other one join or are "
        "left: upgrade is from the classic protocol to that of KIP-848.",
    )
    group_consumer_max_size: int = key(
        INT_MAX,
        "Maximum number of members in such a group.",
        at_least=1,
    )
    group_consumer_regex_refresh_interval_ms: int = key(
        600_000,
        "Interval at which the regular expressions of such a group are compared with all topics; "
        "a topic that is created is found earlier.",
        unit="ms",
        at_least=10_000,
    )
    offset_metadata_max_bytes: int = key(
        4096,
        "Maximum size of the metadata of a committed offset.",
        unit="bytes",
    )
    offsets_commit_timeout_ms: int = key(
        5000,
        "Time after which a request whose change of a group, or commit of offsets, the replicas do "
        "not all have is answered with COORDINATOR_NOT_AVAILABLE; it may take effect later.",
        unit="ms",
        at_least=1,
    )
    offsets_retention_minutes: int = key(
        10_080,
        "Time for which the committed offsets of a group without members are kept.",
        unit="min",
        at_least=1,
    )
    offsets_retention_check_interval_ms: int = key(
        600_000,
        "Interval of the check for expired offsets.",
        unit="ms",
        at_least=1,
    )
    # The topics of the coordinators are created when the first client asks for one.
    offsets_topic_num_partitions: int = key(
        50,
        "Number of partitions that __consumer_offsets is created with.",
        at_least=1,
    )
    offsets_topic_replication_factor: int = key(
        1,
        "Replication factor that __consumer_offsets is created with.",
        at_least=1,
        at_most=2**15 - 1,
    )
    offsets_topic_segment_bytes: int = key(
        100 * MIB,
        "Maximum size of a segment of __consumer_offsets.",
        unit="bytes",
        at_least=1,
    )
    transaction_state_log_num_partitions: int = key(
        50,
        "Number of partitions that __transaction_state is created with.",
        at_least=1,
    )
    transaction_state_log_replication_factor: int = key(
        1,
        "Replication factor that __transaction_state is created with.",
        at_least=1,
        at_most=2**15 - 1,
    )
    transaction_state_log_min_isr: int = key(
        1,
        "min.insync.replicas that __transaction_state is created with.",
        at_least=1,
    )
    transaction_state_log_segment_bytes: int = key(
        100 * MIB,
        "Maximum size of a segment of __transaction_state.",
        unit="bytes",
        at_least=1,
    )
    transaction_max_timeout_ms: int = key(
        900_000,
        "Maximum time that a producer may ask for its transactions.",
        unit="ms",
        at_least=1,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = key(
        10_000,
        "Interval of the check for transactions whose time is over.",
        unit="ms",
        at_least=1,
    )
    transactional_id_expiration_ms: int = key(
        604_800_000,
        "Time for which a transactional id is kept that no producer uses.",
        unit="ms",
        at_least=1,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = key(
        3_600_000,
        "Interval of the check for transactional ids that have expired.",
        unit="ms",
        at_least=1,
    )
    groups_max: int = key(
        10_000,
        "Maximum number of groups.",
        at_least=1,
    )
    groups_max_per_principal: int = key(
        2_500,
        "Maximum number of groups of one principal, or of one address without authentication.",
        at_least=1,
    )
    groups_members_max: int = key(
        10_000,
        "Maximum number of members in all groups.",
        at_least=1,
    )
    groups_members_max_per_principal: int = key(
        2_500,
        "Maximum number of members of one principal in all groups.",
        at_least=1,
    )
    groups_bytes_max: int = key(
        64 * MIB,
        "Memory for members of all groups, and as much for their offsets.",
        unit="bytes",
        at_least=KIB,
        at_most=LONG_MAX,
    )
    groups_bytes_max_per_principal: int = key(
        16 * MIB,
        "Of these, memory for members of one principal, and as much for its offsets.",
        unit="bytes",
        at_least=KIB,
        at_most=LONG_MAX,
    )
    groups_bytes_max_per_group: int = key(
        4 * MIB,
        "Memory for members of one group, and as much for its offsets.",
        unit="bytes",
        at_least=KIB,
        at_most=64 * MIB,
    )
    groups_bytes_reserved_per_group: int = key(
        8 * KIB,
        "A group that takes no more than this is never refused because of what other groups take.",
        unit="bytes",
    )

    # --- the process ---

    drain_timeout_ms: int = key(
        5000,
        "Time after SIGTERM in which responses are still sent before connections are closed.",
        unit="ms",
    )
    log_level: str = key(
        "info",
        "Minimum level of log lines.",
        choices=("debug", "info", "warning", "error"),
    )
    log_format: str = key(
        "auto",
        "Format of the log: 'console' is text, 'json' one JSON object per line; 'auto' is "
        "console on a terminal, else json.",
        choices=("auto", "console", "json"),
    )

    def __post_init__(self) -> None:
        if (
            self.source_kind is SourceKind.CONTROLLER
            and self.listeners
            and not self.controller_listeners
        ):
            added = self._controller_listener()
            object.__setattr__(self, "listeners", (*self.listeners, added))
            known = {added.name: "PLAINTEXT", **self.listener_security_protocol_map}
            object.__setattr__(self, "listener_security_protocol_map", known)

    def _controller_listener(self) -> Listener:
        """The controller listener that is added where ``listeners`` has none.

        It is at Kafka's usual port if the client listener is.
        """
        usual = self.listeners == _client_listener()
        return Listener(
            self.controller_listener_names[0], "127.0.0.1", _CONTROLLER_PORT if usual else 0
        )

    @property
    def source_kind(self) -> SourceKind:
        """The kind of source that ``source`` names, or that 'auto' selects by the other keys."""
        named = SOURCE_NAMES.get(self.source)
        if named is not None:
            return named
        if self.process_roles == _BROKER:
            return SourceKind.OBSERVER
        if self.process_roles in ROLES:
            return SourceKind.CONTROLLER
        if self.log_dirs:
            return SourceKind.LOG
        if self.controller_quorum_bootstrap_servers and not self.controller_quorum_voters:
            return SourceKind.OBSERVER
        return SourceKind.CONTROLLER

    @property
    def is_broker(self) -> bool:
        """Whether this node keeps the records of topics."""
        if self.process_roles != "auto":
            return _BROKER in self.process_roles
        # Other voters have no replicas of its partitions, and workers no access to them.
        is_alone = self.controller_quorum_voters.keys() <= {self.node_id}
        joins = bool(self.controller_quorum_bootstrap_servers)
        own = self.source_kind is SourceKind.CONTROLLER
        return own and is_alone and not joins and self.workers == 1

    @property
    def is_broker_alone(self) -> bool:
        """Whether this node is a broker of controllers that other processes run."""
        return self.process_roles == _BROKER

    @property
    def metadata_log_dir(self) -> Path | None:
        """The directory of this node's metadata log, as far as the configuration names it."""
        if self.data_dir is not None or self.process_roles == "auto":
            return self.data_dir
        return self.log_dirs[0] if self.log_dirs else None

    @property
    def controller_addresses(self) -> tuple[Address, ...]:
        """The controllers that an observer or a broker asks for the leader."""
        voters = tuple(self.controller_quorum_voters.values())
        return self.controller_quorum_bootstrap_servers or voters

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The ``listeners`` that are controller listeners."""
        return tuple(
            listener
            for listener in self.listeners
            if listener.name in self.controller_listener_names
        )

    @property
    def broker_listener_name(self) -> str:
        """The name of the listener at which brokers find one another."""
        if self.inter_broker_listener_name is not None:
            return self.inter_broker_listener_name
        names = (one.name for one in self.listeners)
        return next(name for name in names if name not in self.controller_listener_names)

    def listener_max_connections(self, listener: str) -> int | None:
        """``listener.name.NAME.max.connections``, or None where that is not set."""
        text = of_listener(self.security, listener).get(LISTENER_MAX_CONNECTIONS)
        return None if text is None else int(text)

    def security_protocol(self, listener: str) -> str:
        """The security protocol of the listener of that name."""
        return self.listener_security_protocol_map[listener]
