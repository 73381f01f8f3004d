"""The configuration of ``kwire serve``: one frozen value, checked once. Where the texts come from is ``config_loading``'s.

Keys are Kafka's own ``server.properties`` names where the meaning is the same. It knows no room of the house: what a
security protocol needs or whether a directory can be read is checked by those who use them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway import config_checks
from gateway.address import Address
from gateway.config_values import ENVIRONMENT_PREFIX, PARSERS, SECURITY_PROTOCOLS, ConfigError, Key, Listener, parse_log_dir

__all__ = [
    "ALIASES", "ENVIRONMENT_PREFIX", "INT_MAX", "KEYS", "KIB", "MIB", "SECURITY_PROTOCOLS", "Config", "ConfigError", "Key",
    "Listener",
]  # fmt: skip

KIB: Final = 1024
MIB: Final = 1024 * KIB
INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_CONTROLLER_PORT: Final = 9093


def _key(default: Any, help: str, *, unit: str = "", at_least: int = 0, at_most: int = INT_MAX, **more: Any) -> Any:
    metadata = {"help": help, "unit": unit, "at_least": at_least, "at_most": at_most, **more}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def _client_listener() -> tuple[Listener, ...]:
    return (Listener("PLAINTEXT", "127.0.0.1", 9092),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every key of the server; the key of a field is its name with dots (``node_id`` is ``node.id``)."""

    # What is served, and as whom.
    node_id: int = _key(1, "Id of this node, the only broker that clients see.")
    source: str = _key(
        "auto",
        "Where the metadata partition comes from: 'own' is a KRaft quorum that this node is part of, 'quorum' observes a "
        "real one, 'log' follows log.dirs, 'sample' is the small real log in the package; 'auto' is 'log' or 'quorum' when "
        "log.dirs or controller.quorum.bootstrap.servers is given, else 'own'.",
        choices=("auto", "own", "quorum", "log", "sample"),
    )
    log_dirs: Path | None = _key(  # noqa: RUF009
        None,
        "The __cluster_metadata-0 directory to serve, its parent, or one .log or .checkpoint file; never written to.",
        aliases=("log.dir",),
    )
    snapshot_prefix: bool = _key(True, "Serve the records of the oldest snapshot below the start of a log that begins after it.")
    state_dir: Path | None = _key(  # noqa: RUF009
        None,
        "Directory for what this server itself remembers (committed offsets); default: in the user's state directory, "
        "with source=quorum in data.dir.",
    )

    # Our own quorum (source=own).
    controller_listener_names: tuple[str, ...] = _key(
        lambda: ("CONTROLLER",),
        "Listeners for the nodes of our own quorum, comma separated: raft requests are served there and nowhere else. Nodes "
        "connect to each other's first.",
    )
    controller_quorum_voters: Mapping[int, Address] = _key(
        dict,
        "The voters of a static quorum, the same on all nodes: ID@HOST:PORT, comma separated. Without them the log says who "
        "votes (KIP-853), and a fresh node is a quorum of one.",
        aliases=("quorum.voters",),
    )
    controller_quorum_election_timeout_ms: int = _key(
        1000,
        "Without a leader, or enough votes, for so long (and a random part of it more), the next election begins.",
        unit="ms",
        at_least=50,
        aliases=("quorum.election.timeout.ms",),
    )
    controller_quorum_election_backoff_max_ms: int = _key(
        1000,
        "Longest pause before the election that follows a lost one.",
        unit="ms",
        at_least=1,
        aliases=("quorum.election.backoff.max.ms",),
    )
    controller_quorum_campaign: bool = _key(
        True, "Whether this voter stands for election; if not it is a witness, which replicates and votes."
    )
    controller_quorum_auto_join_enable: bool = _key(
        False, "Whether a node that is no voter of a dynamic quorum makes itself one (KIP-1186)."
    )
    metadata_max_idle_interval_ms: int = _key(
        500, "How often the leader writes a NoOpRecord while nothing else happens; 0 is never.", unit="ms"
    )
    broker_session_timeout_ms: int = _key(
        9000, "A registered broker of Kafka that is not heard for so long is fenced.", unit="ms", at_least=1
    )
    auto_leader_rebalance_enable: bool = _key(
        True, "Whether the first replica of a partition is made its leader again when it can be."
    )
    leader_imbalance_check_interval_seconds: int = _key(300, "How often such partitions are looked for.", unit="s", at_least=1)
    unclean_leader_election_interval_ms: int = _key(
        300_000,
        "How often partitions without a leader are looked for whose topic takes an unclean one.",
        unit="ms",
        at_least=1,
    )

    metadata_audit_enable: bool = _key(
        True, "Whether this node keeps an account of the changes that it carries out as leader: topic __cluster_metadata_audit."
    )
    metadata_audit_retention_bytes: int = _key(
        100 * MIB, "Segments of that account beyond so many bytes are deleted; -1 keeps all.", unit="bytes", at_least=-1,
        at_most=_LONG_MAX,
    )  # fmt: skip
    metadata_audit_retention_ms: int = _key(
        90 * 24 * 3_600_000, "Segments of that account older than this are deleted; -1 keeps all.", unit="ms", at_least=-1,
        at_most=_LONG_MAX,
    )  # fmt: skip
    metadata_audit_segment_bytes: int = _key(
        16 * MIB, "At so many bytes a new segment of that account is begun.", unit="bytes", at_least=KIB, at_most=1024 * MIB
    )

    # A real quorum, observed (source=quorum).
    controller_quorum_bootstrap_servers: tuple[Address, ...] = _key(
        tuple,
        "Controllers of the quorum: HOST:PORT, comma separated; the others are found from any of them.",
        aliases=("bootstrap.controller",),
    )
    data_dir: Path | None = _key(  # noqa: RUF009
        None,
        "Directory of this node's own log, or copy of it, in Kafka's on-disk format; made when it is not there. Default with "
        "source=own: one for node.id in the user's data directory.",
        aliases=("metadata.log.dir",),
    )
    command_config: Path | None = _key(  # noqa: RUF009
        None, "A file of client properties (security.protocol, ssl.*, sasl.*) for the connections to the quorum."
    )
    cluster_id: str | None = _key(
        None, "The cluster to observe, if it is to be no other; default: whichever the quorum is, and the same ever after."
    )
    replica_id: int = _key(
        -1,
        "Id under which the quorum lists this observer (kafka-metadata-quorum); no other node's. -1 is not listed.",
        at_least=-1,
    )
    quorum_history: bool = _key(
        True, "Copy the log from offset 0 where the leader still has it, although it offers a snapshot instead."
    )
    controller_quorum_fetch_timeout_ms: int = _key(
        2000,
        "Without an answer of the leader for so long, another one is looked for.",
        unit="ms",
        at_least=100,
        aliases=("quorum.fetch.timeout.ms",),
    )
    controller_quorum_request_timeout_ms: int = _key(
        2000,
        "How long to connect to a controller, or to wait for any answer of it, may take.",
        unit="ms",
        at_least=100,
        aliases=("quorum.request.timeout.ms",),
    )
    controller_quorum_retry_backoff_ms: int = _key(
        20, "First pause after a failed request to the quorum.", unit="ms", at_least=1, aliases=("quorum.retry.backoff.ms",)
    )
    controller_quorum_retry_backoff_max_ms: int = _key(
        1000,
        "Longest pause between requests that fail one after the other.",
        unit="ms",
        at_least=1,
        aliases=("quorum.retry.backoff.max.ms",),
    )
    controller_quorum_fetch_max_bytes: int = _key(
        MIB, "Record bytes asked for at once (one whole batch always comes).", unit="bytes", at_least=1
    )
    controller_quorum_fetch_snapshot_max_bytes: int = _key(MIB, "Snapshot bytes asked for at once.", unit="bytes", at_least=1)
    metadata_log_fsync: bool = _key(
        True,
        "Put records on disk before clients see them. Without it a crash of the machine, not of the process, may take "
        "back what they have seen.",
    )
    metadata_log_segment_bytes: int = _key(
        1024 * MIB, "A segment of the local log is at most so large.", unit="bytes", at_least=KIB
    )
    metadata_log_segment_ms: int = _key(
        604_800_000, "A segment of the local log is followed by the next after so long.", unit="ms", at_least=1000
    )
    metadata_log_max_record_bytes_between_snapshots: int = _key(
        20 * MIB, "After so many record bytes a snapshot of the state is written.", unit="bytes", at_least=1
    )
    metadata_log_max_snapshot_interval_ms: int = _key(
        3_600_000, "After so long a snapshot is written, if anything changed; 0 is never.", unit="ms"
    )
    metadata_max_retention_bytes: int = _key(
        100 * MIB,
        "Segments and snapshots beyond so many bytes are deleted, as far as a later snapshot stands for them; -1 keeps all.",
        unit="bytes",
        at_least=-1,
    )
    metadata_max_retention_ms: int = _key(
        604_800_000,
        "Segments and snapshots older than this are deleted, as far as a later snapshot stands for them; -1 keeps all.",
        unit="ms",
        at_least=-1,
    )

    # Listeners.
    listeners: tuple[Listener, ...] = _key(
        _client_listener,
        "Where to listen: NAME://HOST:PORT, comma separated; port 0 picks one. With source=own one of "
        "controller.listener.names is added where there is none.",
    )
    advertised_listeners: tuple[Listener, ...] = _key(
        tuple,
        "What clients are told to connect to, where it differs from listeners; port 0 is the port of the listener.",
    )
    listener_security_protocol_map: Mapping[str, str] = _key(
        lambda: {"CONTROLLER": "PLAINTEXT", **{name: name for name in SECURITY_PROTOCOLS}},
        "Listener name to security protocol: NAME:PROTOCOL, comma separated.",
    )
    socket_listen_backlog_size: int = _key(1024, "Connections that may wait to be accepted.", at_least=1, at_most=65535)
    socket_send_buffer_bytes: int = _key(-1, "SO_SNDBUF of a connection; -1 leaves it to the system.", unit="bytes", at_least=-1)
    socket_receive_buffer_bytes: int = _key(
        -1, "SO_RCVBUF of a connection; -1 leaves it to the system.", unit="bytes", at_least=-1
    )

    # Security: who may do what, and what is kept for listeners as they stand in the file.
    authorizer_class_name: str | None = _key(
        None,
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer decides by super.users and the ACLs of the log; by default "
        "everybody may do everything.",
    )
    super_users: str = _key("", "Principals that may do everything whatever ACLs say: User:NAME, semicolons between them.")
    allow_everyone_if_no_acl_found: bool = _key(False, "Whether everybody may do everything with what no ACL speaks of.")
    connection_failed_authentication_delay_ms: int = _key(
        100, "How long who failed to authenticate waits for the answer.", unit="ms", at_most=60_000
    )
    sasl_server_max_receive_size: int = _key(
        512 * KIB, "Largest request before authentication is complete.", unit="bytes", at_least=64
    )
    delegation_token_max_lifetime_ms: int = _key(
        7 * 24 * 3_600_000, "How long a delegation token can be renewed.", unit="ms", at_least=1, at_most=_LONG_MAX
    )
    delegation_token_expiry_time_ms: int = _key(
        24 * 3_600_000, "How long a delegation token is valid before it is renewed.", unit="ms", at_least=1, at_most=_LONG_MAX
    )
    delegation_token_expiry_check_interval_ms: int = _key(
        3_600_000, "How often the controller removes expired delegation tokens.", unit="ms", at_least=1, at_most=_LONG_MAX
    )
    security: Mapping[str, str] = field(default_factory=dict, repr=False)

    management_listener: str | None = _key(
        None, "HOST:PORT for /metrics, /livez, /readyz and /status over HTTP; port 0 picks one. Default: not served."
    )

    # Limits on what a peer can make this server hold.
    max_connections: int = _key(20_000, "Connections at one time; more are closed at once.", at_least=1)
    max_connections_per_ip: int = _key(INT_MAX, "Connections at one time from one address; more are closed at once.", at_least=1)
    connections_max_idle_ms: int = _key(
        600_000, "A connection on which nothing moved for so long is closed.", unit="ms", at_least=100
    )
    socket_request_max_bytes: int = _key(
        16 * MIB, "Largest request; a connection that announces more is closed.", unit="bytes", at_least=64
    )
    first_request_max_bytes: int = _key(
        512 * KIB, "Largest request before the first valid one of a connection.", unit="bytes", at_least=64
    )
    # At this many, reading a request and naming what is wrong with it hold up the others for 30 ms at worst.
    request_max_elements: int = _key(
        30_000,
        "Array elements and unknown tagged fields that one request may hold in all.",
        unit="elements",
        at_least=100,
    )
    request_receive_timeout_ms: int = _key(
        60_000, "A request that was begun must be complete within this time.", unit="ms", at_least=100
    )
    read_ahead_max_bytes: int = _key(
        64 * KIB,
        "Bytes read from a connection behind a request that is still waiting for its answer.",
        unit="bytes",
        at_least=KIB,
    )
    output_buffer_max_bytes: int = _key(
        MIB,
        "With so many answer bytes unsent, no further request of the connection is carried out.",
        unit="bytes",
        at_least=KIB,
    )
    buffers_max_bytes: int = _key(
        256 * MIB,
        "Bytes of unfinished requests and unsent answers of all connections; beyond it those that hold much are cut.",
        unit="bytes",
        at_least=MIB,
    )
    # Longer than the five minutes of max.poll.interval.ms, in which a busy Java consumer rightly does not read.
    response_send_timeout_ms: int = _key(
        360_000, "A connection that takes none of its answer for so long is closed.", unit="ms", at_least=100
    )
    fetch_max_bytes: int = _key(
        55 * MIB,
        "Most record bytes in one Fetch answer, whatever the client asks (one whole batch always fits).",
        unit="bytes",
        at_least=KIB,
    )

    # Consumer groups (the classic protocol).
    # Kafka waits three seconds so that a large application starts in one rebalance; one partition has one reader. Not 0:
    # kafka-python 3.0 may join, rejoin at once and then wait for ever when the first answer comes too fast.
    group_initial_rebalance_delay_ms: int = _key(
        250, "How long the first rebalance of an empty group waits for more members.", unit="ms"
    )
    group_min_session_timeout_ms: int = _key(6000, "Shortest session timeout a member may ask for.", unit="ms")
    group_max_session_timeout_ms: int = _key(1_800_000, "Longest session timeout a member may ask for.", unit="ms")
    group_max_size: int = _key(INT_MAX, "Members in one group.", at_least=1)
    offset_metadata_max_bytes: int = _key(4096, "Longest metadata string of a committed offset.", unit="bytes")
    offsets_retention_minutes: int = _key(
        10_080, "Committed offsets of a group without members are kept so long.", unit="min", at_least=1
    )
    offsets_retention_check_interval_ms: int = _key(600_000, "How often expired offsets are looked for.", unit="ms", at_least=1)

    # The process.
    drain_timeout_ms: int = _key(5000, "On SIGTERM: how long answers may still be sent before connections are cut.", unit="ms")
    log_level: str = _key("info", "Least level that is logged.", choices=("debug", "info", "warning", "error"))
    log_format: str = _key(
        "auto",
        "'console' for people, 'json' for lines; 'auto' decides by whether standard error is a terminal.",
        choices=("auto", "console", "json"),
    )

    def __post_init__(self) -> None:
        if self.kind_of_source == "own" and self.listeners and not self.controller_listeners:
            added = self._controller_listener()
            object.__setattr__(self, "listeners", (*self.listeners, added))
            known = {added.name: "PLAINTEXT", **self.listener_security_protocol_map}
            object.__setattr__(self, "listener_security_protocol_map", known)
        problems = config_checks.problems(self)
        if problems:
            raise ConfigError(*problems)

    @property
    def kind_of_source(self) -> str:
        """``source``, with 'auto' decided."""
        if self.source != "auto":
            return self.source
        if self.log_dirs is not None:
            return "log"
        return "quorum" if self.controller_quorum_bootstrap_servers and not self.controller_quorum_voters else "own"

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """Those of ``listeners`` that are for the nodes of our own quorum, and for tools that ask controllers."""
        return tuple(listener for listener in self.listeners if listener.name in self.controller_listener_names)

    def _controller_listener(self) -> Listener:
        """The one that a quorum of one gets without asking: at Kafka's usual port where clients have theirs there, too."""
        usual = self.listeners == _client_listener()
        return Listener(self.controller_listener_names[0], "127.0.0.1", _CONTROLLER_PORT if usual else 0)

    def security_protocol(self, listener: str) -> str:
        """The security protocol of the listener of that name."""
        return self.listener_security_protocol_map[listener]


def _keys() -> dict[str, Key]:
    keys = {}
    for attribute in dataclasses.fields(Config):
        if not attribute.metadata:  # put together by config_loading from keys of its own
            continue
        name, about = attribute.name.replace("_", "."), attribute.metadata
        keys[name] = Key(
            name=name,
            attribute=attribute.name,
            parse=parse_log_dir if name == "log.dirs" else PARSERS[str(attribute.type)],
            help=about["help"],
            unit=about["unit"],
            default=attribute.default_factory() if callable(attribute.default_factory) else attribute.default,
            choices=about.get("choices", ()),
            aliases=about.get("aliases", ()),
        )
    return keys


#: Every key by its name, in the order of Config.
KEYS: Final[Mapping[str, Key]] = _keys()
ALIASES: Final = {alias: key.name for key in KEYS.values() for alias in key.aliases}
