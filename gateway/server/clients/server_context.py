"""Holds the objects that all connections of the server share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.server.clients.response_scheduler import ResponseScheduler
from gateway.server.scheduling.counts import Counts
from gateway.server.scheduling.loop_pass_budget import LoopPassBudget
from gateway.server.scheduling.loop_watchdog import LoopWatchdog
from gateway.server.scheduling.memory import Memory
from gateway.server.scheduling.work_scheduler import WorkScheduler

if TYPE_CHECKING:
    from gateway.config.config import Config
    from gateway.server.clients.dispatch import Dispatcher
    from gateway.server.clients.listener_auth import ListenerAuth
    from gateway.server.clients.purgatory import Purgatory
    from gateway.server.logging.logs import Reports


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The objects that all connections share."""

    config: Config
    dispatcher: Dispatcher
    purgatory: Purgatory
    reports: Reports
    memory: Memory = field(default_factory=Memory)
    counts: Counts = field(default_factory=Counts)
    turns: LoopPassBudget = field(default_factory=LoopPassBudget)
    #: By listener, for listeners that are not PLAINTEXT.
    listener_auths: Mapping[str, ListenerAuth] = field(default_factory=dict)
    #: Streamed responses that are being encoded.
    responses: ResponseScheduler = field(init=False)
    #: Work that takes more than one step.
    work: WorkScheduler = field(init=False)
    watchdog: LoopWatchdog = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "watchdog", LoopWatchdog(self.reports))
        object.__setattr__(self, "work", WorkScheduler(self.counts, self.watchdog.took))
        made = ResponseScheduler(self.memory, self.config.buffers_max_bytes, self.work)
        object.__setattr__(self, "responses", made)
