"""What the controller does by itself, now and then (``PeriodicTaskControlManager``): sessions that
end, leaders that are put right. Each task gives records like a request, and an empty list when
there is nothing to do. It knows no log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.controller.brokers import expire_one
from gateway.controller.delegation_tokens import sweep_expired_tokens
from gateway.controller.leader_election import elect_preferred, elect_unclean

if TYPE_CHECKING:
    from gateway.controller.request_context import ControllerRequestContext
    from gateway.controller.settings import ControllerSettings
    from gateway.slices import Slices
    from kwire.message import Message

#: How often it is looked for sessions that ended, of their length
#: (``maybeFenceStaleBrokerPeriodNs``).
_LOOKS_A_SESSION: Final = 8


class Task(NamedTuple):
    """``name`` is what Kafka calls it; what it finds to do in one go, it does every ``period_ms``,
    and again at once.
    """

    name: str
    period_ms: int
    run: Callable[[ControllerRequestContext], Slices[list[Message]]]


class Periodic:
    """When each task is due, in milliseconds on a clock that never jumps."""

    def __init__(self, settings: ControllerSettings, now_ms: int) -> None:
        self._tasks = [task for task in _tasks(settings) if task.period_ms > 0]
        self._due_ms = {task.name: now_ms + task.period_ms for task in self._tasks}

    @property
    def deadline_ms(self) -> int | None:
        """When the next task is due; None where there are none."""
        return min(self._due_ms.values(), default=None)

    def due(self, now_ms: int) -> Iterator[Task]:
        """The tasks whose time has come, each once."""
        for task in self._tasks:
            if self._due_ms[task.name] <= now_ms:
                yield task

    def done(self, task: Task, now_ms: int, *, found: bool) -> None:
        """A task was run; one that ``found`` something to do may find more, as soon as others had
        their turn.
        """
        self._due_ms[task.name] = now_ms if found else now_ms + task.period_ms


def _tasks(settings: ControllerSettings) -> Iterator[Task]:
    yield Task(
        "maybeFenceStaleBroker",
        max(1, settings.broker_session_timeout_ms // _LOOKS_A_SESSION),
        expire_one,
    )
    yield Task("electPreferred", settings.leader_imbalance_check_interval_ms, elect_preferred)
    yield Task("electUnclean", settings.unclean_leader_election_interval_ms, elect_unclean)
    if settings.token_secret is not None:
        yield Task(
            "sweepExpiredDelegationTokens",
            settings.token_expiry_check_interval_ms,
            sweep_expired_tokens,
        )
