"""Keys that limit what clients can make the server hold, and those of consumer groups.

Names are those of Kafka's ``server.properties`` where the meaning is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.base.sizes import KIB, MIB
from gateway.config.key import INT_MAX, LONG_MAX, key
from gateway.config.quorum import QuorumKeys
from gateway.config.security import of_listener
from gateway.config.values import LISTENER_MAX_CONNECTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKeys(QuorumKeys):
    """Memory, connections, time and groups."""

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
    # Longer than the five minutes of max.poll.interval.ms, in which a busy Java consumer rightly
    # does not read.
    response_send_timeout_ms: int = key(
        360_000,
        "Time in which a client must read something of its response; then the connection is "
        "closed.",
        unit="ms",
        at_least=100,
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
    offset_metadata_max_bytes: int = key(
        4096,
        "Maximum size of the metadata of a committed offset.",
        unit="bytes",
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

    def listener_max_connections(self, listener: str) -> int | None:
        """``listener.name.NAME.max.connections``, or None where that is not set."""
        text = of_listener(self.security, listener).get(LISTENER_MAX_CONNECTIONS)
        return None if text is None else int(text)
