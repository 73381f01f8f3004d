"""Defines the settings of a controller. The reader of the configuration has checked them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.security.secret import Secret
from kwire.message import Message
from kwire.protocol.metadata_version import LATEST_PRODUCTION_METADATA_VERSION
from kwire.uuid import Uuid


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The settings of one controller.

    ``serving_nodes`` are the ids of the quorum's nodes, which get the replicas while no broker is
    registered. ``metadata_version`` (a level, 7 to 30) and ``features`` (None: those of a new
    cluster at that level) are finalized by the first leader, which also writes
    ``bootstrap_records``. A broker must name ``cluster_id`` to
    register.
    """

    node_id: int
    serving_nodes: tuple[int, ...]
    metadata_version: int = LATEST_PRODUCTION_METADATA_VERSION
    features: Mapping[str, int] | None = None
    bootstrap_records: Sequence[Message] = ()
    num_partitions: int = 1
    default_replication_factor: int = 1
    max_idle_interval_ms: int = 500  #: ``metadata.max.idle.interval.ms``; 0: no NoOpRecords
    cluster_id: str = ""
    broker_session_timeout_ms: int = 9_000  #: ``broker.session.timeout.ms``
    #: ``leader.imbalance.check.interval.seconds``; 0 if ``auto.leader.rebalance.enable`` is false.
    leader_imbalance_check_interval_ms: int = 300_000
    unclean_leader_election_interval_ms: int = 300_000  #: ``unclean.leader.election.interval.ms``
    #: Of the broker in this process; None: it is a controller alone. A registration of this node
    #: with another incarnation is that of a process that has ended.
    broker_incarnation: Uuid | None = None
    #: The configs that the audit topic is created with; None: it is not created.
    audit_topic: Mapping[str, str] | None = None
    #: ``delegation.token.secret.key``; None: no delegation tokens.
    token_secret: Secret | None = None
    token_max_lifetime_ms: int = 604_800_000  #: ``delegation.token.max.lifetime.ms``
    token_expiry_time_ms: int = 86_400_000  #: ``delegation.token.expiry.time.ms``
    #: ``delegation.token.expiry.check.interval.ms``
    token_expiry_check_interval_ms: int = 3_600_000
