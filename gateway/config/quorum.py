"""Keys of the quorum, its log and the audit log.

Names are those of Kafka's ``server.properties`` where the meaning is the same; aliases are those of
KIP-595.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.base.address import Address
from gateway.base.sizes import KIB, MIB
from gateway.config.key import LONG_MAX, key
from gateway.config.listeners import ListenerKeys
from gateway.config.values import SOURCE_NAMES, Listener, SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumKeys(ListenerKeys):
    """A quorum of which this node is part, or that it observes."""

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
        "Directory of this node's log, in Kafka's format; created if it does not exist. "
        "Default with source=controller: a directory for node.id in the user's data "
        "directory.",
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

    @property
    def source_kind(self) -> SourceKind:
        """The kind of source that ``source`` names, or that 'auto' selects by the other keys."""
        named = SOURCE_NAMES.get(self.source)
        if named is not None:
            return named
        if self.log_dirs is not None:
            return SourceKind.LOG
        if self.controller_quorum_bootstrap_servers and not self.controller_quorum_voters:
            return SourceKind.OBSERVER
        return SourceKind.CONTROLLER

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The ``listeners`` that are controller listeners."""
        return tuple(
            listener
            for listener in self.listeners
            if listener.name in self.controller_listener_names
        )
