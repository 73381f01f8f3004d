"""Schedules the periodic tasks of the controller (``PeriodicTaskControlManager``).

They fence brokers whose sessions ended, elect leaders, remove expired tokens, and create the audit
topic. A task returns records like the decision on a request, and none if there is nothing to do. It
knows no log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.controller.audit_topic import create_audit_topic
from gateway.controller.brokers import expire_one
from gateway.controller.delegation_tokens import sweep_expired_tokens
from gateway.controller.leader_election import elect_preferred, elect_unclean

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from gateway.controller.request_context import ControllerRequestContext
    from gateway.controller.settings import ControllerSettings
    from kwire.message import Message

#: Checks for ended sessions per session timeout (``maybeFenceStaleBrokerPeriodNs``).
_CHECKS_PER_SESSION: Final = 8
_CREATE_AUDIT_TOPIC: Final = "createAuditTopic"
_CREATE_AUDIT_TOPIC_MS: Final = 1_000


class Task(NamedTuple):
    """A task that runs every ``period_ms``. ``name`` is that of Kafka's task; ``run`` returns the
    records of one limited piece of work.
    """

    name: str
    period_ms: int
    run: Callable[[ControllerRequestContext], Slices[list[Message]]]


class Periodic:
    """The moments at which tasks are due, in milliseconds on a monotonic clock."""

    def __init__(self, settings: ControllerSettings, now_ms: int) -> None:
        # An interval of 0 switches a task off.
        self._tasks = [task for task in _tasks(settings) if task.period_ms > 0]
        self._due_ms = {task.name: now_ms + task.period_ms for task in self._tasks}

    @property
    def deadline_ms(self) -> int | None:
        """The moment at which the next task is due; None without tasks."""
        return min(self._due_ms.values(), default=None)

    def due(self, now_ms: int) -> Iterator[Task]:
        """Yield the tasks that are due, each once."""
        for task in self._tasks:
            if self._due_ms[task.name] <= now_ms:
                yield task

    def broker_changed(self, now_ms: int) -> None:
        """Note that a broker may have been unfenced: the audit topic is created before a client can
        ask for anything of that broker.
        """
        if _CREATE_AUDIT_TOPIC in self._due_ms:
            self._due_ms[_CREATE_AUDIT_TOPIC] = now_ms

    def done(self, task: Task, now_ms: int, *, found: bool) -> None:
        """Note that a task has run.

        A task that ``found`` work may have more: it is due at once, but the other tasks run first
        (``ReplicationControlManager.maybeBalancePartitionLeaders``: true reschedules the task).
        """
        # Counted from now: a task that runs late is not made up for by several runs.
        self._due_ms[task.name] = now_ms if found else now_ms + task.period_ms


def _tasks(settings: ControllerSettings) -> Iterator[Task]:
    yield Task(
        "maybeFenceStaleBroker",
        # At least 1: an interval of 0 would switch it off.
        max(1, settings.broker_session_timeout_ms // _CHECKS_PER_SESSION),
        expire_one,
    )
    yield Task("electPreferred", settings.leader_imbalance_check_interval_ms, elect_preferred)
    yield Task("electUnclean", settings.unclean_leader_election_interval_ms, elect_unclean)
    if settings.audit_topic is not None:
        yield Task(_CREATE_AUDIT_TOPIC, _CREATE_AUDIT_TOPIC_MS, create_audit_topic)
    if settings.token_secret is not None:
        yield Task(
            "sweepExpiredDelegationTokens",
            settings.token_expiry_check_interval_ms,
            sweep_expired_tokens,
        )
