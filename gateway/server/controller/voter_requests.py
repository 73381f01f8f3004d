"""Carries out clients' changes of voters at the leader: the quorum decides on them, and not the
controller.

``gateway.handlers.apis.voter_changes`` takes them from clients; a controller listener passes them
to the quorum by itself. Follows ``ControllerApis.handleAddRaftVoter``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.handlers.access import CLUSTER_NAME
from gateway.handlers.apis.voter_changes import VOTER_CHANGES
from gateway.server.controller.proposals import refuse
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.ports.services import Authorizer
    from gateway.server.controller.proposals import QueuedRequest
    from gateway.server.quorum.raft_driver import RaftDriver


def change_voters(queued: QueuedRequest, driver: RaftDriver, authorizer: Authorizer) -> bool:
    """Pass a change of voters to this node's quorum, if the client may alter the cluster. False if
    the request is no such change.
    """
    if queued.request.API_KEY not in VOTER_CHANGES:
        return False
    who = queued.requester
    if authorizer.allows(who.principal, who.host, "ALTER", "CLUSTER", CLUSTER_NAME):
        driver.ask(queued.request, queued.version, who.listener, queued.pending)
    else:
        refuse(queued, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    return True
