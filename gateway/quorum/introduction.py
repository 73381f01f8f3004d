"""What an observer asks beside the log: the cluster's id and the quorum's voters, each put off when nobody says it.

DescribeCluster wants Alter on the cluster of a controller's clients, DescribeQuorum wants Describe: an observer that may only
follow must do without. Knows nothing of the log.
"""

from __future__ import annotations

from typing import Final

from gateway.quorum import requests
from gateway.quorum.requests import Identity
from gateway.quorum.settings import ObserverSettings
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest

#: A question without an answer is put again after so many seconds.
_AGAIN_S: Final = 30.0

DESCRIBE_CLUSTER: Final = DescribeClusterRequest.API_KEY
DESCRIBE_QUORUM: Final = DescribeQuorumRequest.API_KEY


class Introduction:
    """Who we are to the quorum, and what we know of who it is."""

    def __init__(self, settings: ObserverSettings) -> None:
        self._settings = settings
        self._due: dict[int, float] = {}
        self.cluster_id = settings.cluster_id or None  # an empty one would be refused
        self.voters: frozenset[int] = frozenset()  #: empty while unknown

    @property
    def identity(self) -> Identity:
        """Who asks. The replica id is kept back until the voters are known: a voter's would be counted as one."""
        settings = self._settings
        return Identity(self.cluster_id, settings.replica_id if self.voters else -1, settings.directory_id)

    def question(self, now: float) -> DescribeClusterRequest | DescribeQuorumRequest | None:
        """What to ask the leader before the log, if anything; it is not asked again for a while."""
        if self.cluster_id is None and self._take_turn(DESCRIBE_CLUSTER, now):
            return requests.describe_cluster()
        if self._settings.replica_id >= 0 and not self.voters and self._take_turn(DESCRIBE_QUORUM, now):
            return requests.describe_quorum()
        return None

    def _take_turn(self, api_key: int, now: float) -> bool:
        if now < self._due.get(api_key, now):
            return False
        self._due[api_key] = now + _AGAIN_S
        return True
