"""Runs the periodic tasks of the active controller in slices, and writes NoOpRecords while the log
is idle.

``gateway.controller`` has the tasks, such as fencing brokers whose session has expired and electing
preferred leaders; this module decides when they run, as the event queue of Kafka's
``QuorumController`` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gateway.base.wall_clock import wall_ms
from gateway.controller.brokers import fenced_by, unfenced

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from gateway.controller.controller import Controller
    from gateway.controller.records import Operation
    from gateway.controller.sessions import Registered
    from gateway.server.logging.logs import Reports
    from gateway.server.scheduling.sliced_executor import SlicedExecutor


class PeriodicTasks:
    """``propose`` takes the operations of the tasks, and ``failed`` an exception in them."""

    def __init__(
        self,
        decisions: SlicedExecutor[Any, Any],
        steady_ms: Callable[[], int],
        next_offset: Callable[[], int],
        propose: Callable[[Operation], object],
        failed: Callable[[Exception], None],
        measure: Callable[[float], None],
        reports: Reports,
    ) -> None:
        """``steady_ms`` is the monotonic clock of the controller, ``next_offset`` the offset of the
        next record. ``measure`` gets the seconds of processing.
        """
        self._decisions = decisions
        self._steady_ms = steady_ms
        self._next_offset = next_offset
        self._propose = propose
        self._failed = failed
        self._measure = measure
        self._reports = reports

    def run_if_due(self, controller: Controller) -> None:
        """Run the tasks that are due, before the next decision."""
        due_ms = controller.deadline_ms
        if due_ms is not None and self._steady_ms() >= due_ms:
            self._decisions.run_next(self._run(controller), self._done, self._failed)

    def write_no_op(self, controller: Controller) -> None:
        """Propose a NoOpRecord if the log has been idle for ``metadata.max.idle.interval.ms``
        (KIP-835).
        """
        idle = controller.idle(self._steady_ms())
        if idle is not None:
            self._propose(idle)

    def _run(self, controller: Controller) -> Slices[tuple[list[Operation], set[Registered]]]:
        """The operations of the tasks, and the brokers that were unfenced before them."""
        assert controller.image is not None, "the controller of a leader is active"
        serving = set(unfenced(controller.image))
        controller.log_ends(self._next_offset())
        operations = yield from controller.periodic(wall_ms(), steady_ms=self._steady_ms())
        return operations, serving

    def _done(self, result: tuple[list[Operation], set[Registered]], seconds: float) -> None:
        operations, serving = result
        self._measure(seconds)
        for operation in operations:
            fenced = serving.intersection(fenced_by(operation))
            self._propose(operation)  # which may free the records
            for broker_id, epoch in fenced:
                self._reports.report(
                    "broker session expired", broker_id=broker_id, broker_epoch=epoch
                )
