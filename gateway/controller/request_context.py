"""Defines the input and the result of a decision on a request. It knows no API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.broker.quotas.controller_mutation_quota import QuotaExceeded
from gateway.controller.errors import ApiError
from gateway.controller.kraft import KRaft
from gateway.controller.nodes import Nodes
from gateway.controller.placement import RandomBelow
from gateway.controller.sessions import Sessions
from gateway.controller.settings import ControllerSettings
from gateway.controller.state import State
from kwire.cluster import Image
from kwire.message import Message
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid

#: Whether the requester may do an operation on a resource: (operation, resource type, resource
#: name), as ``Authorizer`` names them.
Allows = Callable[[str, str, str], bool]
#: Counts the partitions that a request creates or deletes in the quota of the requester, and raises
#: QuotaExceeded for a topic that it does not allow now (KIP-599).
CountPartitions = Callable[[int], None]
#: The principal of a connection without authentication (``KafkaPrincipal.ANONYMOUS``).
ANONYMOUS: Final = "User:ANONYMOUS"


def uncounted(partitions: int) -> None:
    """Count nothing: the requester has no quota of changes of partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRequestContext:
    """The circumstances of one request; a decision depends on nothing else.

    ``version`` is the request's. ``principal`` (type and name) sent it, and ``allows`` asks the
    authorizer about that principal. ``now_ms`` is since the epoch; ``steady_ms`` is the same moment
    on the clock of ``sessions``, which are those of the brokers. The first record of the decision
    will be at ``next_offset`` of the log, or a little later if the quorum appends control records
    first. ``kraft`` is the quorum, and
    ``kraft_proposed`` the kraft.version that was proposed to it before. ``random_below`` gives a
    random number below its argument, ``new_id`` an id that no topic has.
    """

    version: int
    allows: Allows
    now_ms: int
    state: State
    settings: ControllerSettings
    random_below: RandomBelow
    new_id: Callable[[], Uuid]
    sessions: Sessions
    steady_ms: int
    next_offset: int
    kraft: KRaft
    kraft_proposed: int
    principal: str = ANONYMOUS
    count_partitions: CountPartitions = uncounted

    @property
    def image(self) -> Image:
        """The image of the cluster with all proposals, committed or not."""
        return self.state.image

    @property
    def level(self) -> int:
        """The finalized metadata.version."""
        return self.state.image.metadata_version

    @property
    def kraft_version(self) -> int:
        """The kraft.version of the quorum, or a higher one that was proposed to it."""
        # A second upgrade must not be decided while the first one is on its way to the log.
        return max(self.kraft.kraft_version, self.kraft_proposed)

    @property
    def nodes(self) -> Nodes:
        """The nodes that replicas can be placed on."""
        return Nodes(self.state.image, self.settings.serving_nodes)

    def apply_partition_change_quota(self, partitions: int) -> None:
        """Count partitions that are created or deleted. Raises ApiError if the requester has to
        wait (``ControllerRequestContext.applyPartitionChangeQuota``).
        """
        try:
            self.count_partitions(partitions)
        except QuotaExceeded:
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
            ) from None

    def may_on_cluster(self, operation: str) -> bool:
        """Whether the requester may do the operation on the cluster."""
        # ``Resource.CLUSTER_NAME``.
        return self.allows(operation, "CLUSTER", "kafka-cluster")

    def may_on_topic(self, operation: str, name: str) -> bool:
        """Whether the requester may do the operation on the topic of that name."""
        return self.allows(operation, "TOPIC", name)


def _nothing(last_offset: int) -> None:
    pass


class ControllerResult(NamedTuple):
    """The records that a request makes, if any, and the response to send when they are committed.

    Atomic records take effect together or not at all. Records that are not ``atomic`` may be any
    number, and each leaves a valid state. The controller calls ``written`` with the offset of the
    last of them, or of the log's last record if there are none. A response that changes nothing
    ``needs_confirmation`` that this node still led when it was decided. ``kraft_version`` is what
    the quorum must raise its own version to before the records.
    """

    records: list[Message]
    answer: Message
    atomic: bool = True
    written: Callable[[int], None] = _nothing
    needs_confirmation: bool = True
    kraft_version: int | None = None
