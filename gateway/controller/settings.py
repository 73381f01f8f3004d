"""How a controller is set: defaults of topics, what the first leader writes. Values, checked by who
reads the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.security.secret import Secret
from kwire.protocol.metadata_version import LATEST_PRODUCTION_METADATA_VERSION


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """``serving_nodes``: ids of the nodes of the quorum, on which partitions are placed while no
    broker is registered.

    ``metadata_version`` (a level, 7 to 30) and ``features`` (None: of a new cluster at that level)
    are what the first leader finalizes. Brokers must name ``cluster_id`` to be registered.
    """

    node_id: int
    serving_nodes: tuple[int, ...]
    metadata_version: int = LATEST_PRODUCTION_METADATA_VERSION
    features: Mapping[str, int] | None = None
    num_partitions: int = 1
    default_replication_factor: int = 1
    max_idle_interval_ms: int = 500  #: ``metadata.max.idle.interval.ms``; 0: no NoOpRecords
    cluster_id: str = ""
    broker_session_timeout_ms: int = 9_000  #: ``broker.session.timeout.ms``
    #: ``leader.imbalance.check.interval.seconds`` (0: no ``auto.leader.rebalance.enable``), and for
    #: unclean elections.
    leader_imbalance_check_interval_ms: int = 300_000
    unclean_leader_election_interval_ms: int = 300_000
    token_secret: Secret | None = (
        None  #: ``delegation.token.secret.key``; None: no delegation tokens
    )
    token_max_lifetime_ms: int = 604_800_000  #: ``delegation.token.max.lifetime.ms``
    token_expiry_time_ms: int = 86_400_000  #: ``delegation.token.expiry.time.ms``
    token_expiry_check_interval_ms: int = (
        3_600_000  #: ``delegation.token.expiry.check.interval.ms``
    )
