"""Builds the error texts for the operator: the node, the fault and the remedy. It keeps no
state.
"""

from __future__ import annotations

from gateway.base.address import Address
from gateway.base.error_text import error_with_code
from gateway.quorum.partition import Position


def not_authorized(address: Address, principal: str | None) -> str:
    """CLUSTER_AUTHORIZATION_FAILED: the principal lacks CLUSTER_ACTION."""
    who = f"principal {principal}" if principal else "the principal of this connection"
    return (
        f"{address} refuses to let {who} follow the metadata log: it lacks ClusterAction on the "
        "cluster. Add it with: "
        "kafka-acls --bootstrap-server <broker> --add "
        f"--allow-principal {principal or 'User:<name>'} "
        "--operation ClusterAction --cluster"
    )


def not_authenticated(address: Address, text: str) -> str:
    """SASL or TLS refused the credentials of this node."""
    return (
        f"{address} does not accept our credentials: {text}. "
        "Check the file given as command.config."
    )


def other_cluster(local: str | None, remote: str | None, address: Address | None = None) -> str:
    """INCONSISTENT_CLUSTER_ID, or a cluster id learned that is not the local log's."""
    if address is not None:
        return (
            f"{address} does not belong to cluster {local} (INCONSISTENT_CLUSTER_ID). The local "
            f"log is of cluster {local}: point controller.quorum.bootstrap.servers at its "
            "controllers, or use another data.dir for another cluster."
        )
    return (
        f"The quorum belongs to cluster {remote}, the local log to cluster {local}. Point "
        f"controller.quorum.bootstrap.servers at controllers of {local}, or use another data.dir "
        f"for {remote}."
    )


def below_high_watermark(
    leader: str, leaders: Position, log_end: Position, target: int, high_watermark: int
) -> str:
    """The leader's log diverges from the local one below the high watermark."""
    return (
        f"Committed records would be lost: {leader} says that its log diverges from the local one "
        f"at epoch {leaders.epoch}, offset {leaders.offset}, which would cut the local log (end "
        f"{log_end.offset}, epoch {log_end.epoch}) back to {target}, below the high watermark "
        f"{high_watermark} that the quorum reported before. Nothing was cut. Either the quorum "
        "lost committed records, or this is another cluster's log: compare both with "
        "kafka-dump-log, and use a fresh data.dir if the quorum is right."
    )


def snapshot_below_high_watermark(
    leader: str, snapshot_id: str, log_end: Position, high_watermark: int
) -> str:
    """The leader offers only a snapshot that ends below the high watermark."""
    return (
        f"Committed records would be lost: {leader} gives only its snapshot {snapshot_id} for "
        f"the local log (end {log_end.offset}, epoch {log_end.epoch}), which ends below the high "
        f"watermark {high_watermark} that the quorum reported before. Nothing was cut. Either the "
        "quorum lost committed records, or this is another cluster's log: use a fresh data.dir if "
        "the quorum is right."
    )


def no_cluster_id(address: Address, error: int) -> str:
    """DescribeCluster did not say the cluster's id, so answers cannot be checked by it."""
    why = error_with_code(error) if error else "an empty one"
    return (
        f"{address} does not say the id of its cluster ({why}): that takes Alter on the cluster. "
        "Give it as cluster.id, so that every request is checked against it."
    )


def no_voters(address: Address, error: int, replica_id: int) -> str:
    """DescribeQuorum did not return the voters, so the replica id cannot be used yet."""
    return (
        f"{address} does not say who votes ({error_with_code(error)}): that takes Describe on the "
        f"cluster. Fetching without replica.id {replica_id} until the voters are known."
    )
