"""One request to the controller with all that its answer may depend on. Knows no API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.controller.kraft import KRaft
from gateway.controller.nodes import Nodes
from gateway.controller.placement import Dice
from gateway.controller.sessions import Sessions
from gateway.controller.settings import ControllerSettings
from gateway.controller.state import State
from kwire.cluster import Image
from kwire.message import Message
from kwire.uuid import Uuid

#: May who asked do the operation on the resource: (operation, resource type, resource name), as ``Authorizer`` names them?
Allows = Callable[[str, str, str], bool]
#: Who asked without saying who he is (``KafkaPrincipal.ANONYMOUS``).
ANONYMOUS: Final = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Case:
    """``version`` is the request's, ``now_ms`` milliseconds since the epoch; ``new_id`` gives ids that no topic has.

    ``sessions`` are of the brokers, ``steady_ms`` is the moment on their clock. The first record that this makes will be at
    ``next_offset`` of the log. ``kraft`` is the quorum, ``kraft_proposed`` the version that it was asked to rise to before.
    ``principal`` is who asked, as type and name: what he may do is for ``allows`` to say.
    """

    version: int
    allows: Allows
    now_ms: int
    state: State
    settings: ControllerSettings
    dice: Dice
    new_id: Callable[[], Uuid]
    sessions: Sessions
    steady_ms: int
    next_offset: int
    kraft: KRaft
    kraft_proposed: int
    principal: str = ANONYMOUS

    @property
    def image(self) -> Image:
        """The cluster, with what was proposed and is not committed yet."""
        return self.state.image

    @property
    def level(self) -> int:
        """The finalized metadata.version."""
        return self.state.image.metadata_version

    @property
    def kraft_version(self) -> int:
        """The quorum's, with what was proposed."""
        return max(self.kraft.kraft_version, self.kraft_proposed)

    @property
    def nodes(self) -> Nodes:
        """Where replicas can be."""
        return Nodes(self.state.image, self.settings.serving_nodes)

    def may_on_cluster(self, operation: str) -> bool:
        """May who asked do it on the cluster?"""
        return self.allows(operation, "CLUSTER", "kafka-cluster")

    def may_on_topic(self, operation: str, name: str) -> bool:
        """May who asked do it on the topic of that name?"""
        return self.allows(operation, "TOPIC", name)


def _nothing(last_offset: int) -> None:
    pass


class Verdict(NamedTuple):
    """What a request comes to: records to be written, none for a refusal, and the answer for when they are.

    They take effect together, or one by one where ``atomic`` is False: then each part of them must be a good state, and there
    may be any number. ``written`` is told the offset of the last of them, or of the log's last record if there are none.
    ``sure``: an answer that changes nothing waits until it is certain that no other node leads by now. ``kraft_version``: what
    the quorum has to raise its own version to before.
    """

    records: list[Message]
    answer: Message
    atomic: bool = True
    written: Callable[[int], None] = _nothing
    sure: bool = True
    kraft_version: int | None = None
