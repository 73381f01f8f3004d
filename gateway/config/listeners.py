"""Keys of the source, the listeners, security and the management listener.

Names are those of Kafka's ``server.properties`` where the meaning is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.base.sizes import KIB
from gateway.config.key import LONG_MAX, key
from gateway.config.values import SECURITY_PROTOCOLS, SOURCE_NAMES, Listener


def client_listener() -> tuple[Listener, ...]:
    """The default of ``listeners``."""
    return (Listener("PLAINTEXT", "127.0.0.1", 9092),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerKeys:
    """The source, its listeners, and the security of both."""

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
    log_dirs: Path | None = key(  # noqa: RUF009
        None,
        "Metadata log to serve: the __cluster_metadata-0 directory, its parent, or one .log "
        "or .checkpoint file. Read only.",
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
        client_listener,
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
