"""Declares how the driver notifies the controller of leadership and proposals, as Kafka's
``RaftClient.Listener``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.quorum.effects import Accepted, Leading, NotLeading, Refused

if TYPE_CHECKING:
    from collections.abc import Callable


class Leadership(Protocol):
    """The controller, as the driver knows it. Every method is called on the event loop, in the
    order of the core's effects.
    """

    def on_elected(self, epoch: int, start_offset: int) -> None: ...
    def on_resigned(self, epoch: int) -> None: ...
    def accepted(self, number: int, end_offset: int) -> None: ...
    def refused(self, number: int, not_leader: bool, reason: str) -> None: ...
    def committed(self, high_watermark: int) -> None: ...
    def confirm(self, on_confirmed: Callable[[], None]) -> None: ...


def notify(controller: Leadership, effect: Leading | NotLeading | Accepted | Refused) -> None:
    """Call the method of ``controller`` that ``effect`` stands for."""
    match effect:
        case Leading(epoch, start_offset):
            controller.on_elected(epoch, start_offset)
        case NotLeading(epoch):
            controller.on_resigned(epoch)
        case Accepted(number, _, end_offset):
            controller.accepted(number, end_offset)
        case Refused(number, not_leader, reason):
            controller.refused(number, not_leader, reason)
