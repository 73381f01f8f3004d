"""Registers this node's broker and sends its heartbeats; decides nothing
(``gateway.broker.lifecycle``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.broker.lifecycle import BrokerLifecycle, BrokerState
from gateway.ports.services import SourceStopped
from kwire.messages.broker_registration_request import BrokerRegistrationRequest
from kwire.protocol import error_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.server.logging.logs import Reports
    from gateway.server.quorum.own_requests import OwnRequests
    from gateway.sources.metadata_loader import MetadataLoader
    from kwire.uuid import Uuid

_REGISTRATION_VERSION: Final = 4
_HEARTBEAT_VERSION: Final = 1
#: Pause before the next request while the broker starts or stops, s: its state changes soon.
_SOON_S: Final = 0.02
#: Pause after a registration that was refused, s.
_REFUSED_S: Final = 0.2


class BrokerLifecycleManager:
    """:meth:`run` is the task."""

    def __init__(
        self,
        lifecycle: BrokerLifecycle,
        requests: OwnRequests,
        loader: MetadataLoader,
        interval_s: float,
        registration_timeout_s: float,
        reports: Reports,
        hindrance: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``interval_s``: that of heartbeats. ``registration_timeout_s``: that of the first
        registration. ``hindrance`` says why this broker is not to be registered: None if it is to
        be, empty while that is not known.
        """
        self.lifecycle = lifecycle
        #: The logs are open: the broker may be unfenced.
        self.is_ready = False
        #: Set when the broker is unfenced, or is not to be registered.
        self.settled = trio.Event()
        self._hindrance = hindrance
        self._requests = requests
        self._loader = loader
        self._interval_s = interval_s
        self._registration_timeout_s = registration_timeout_s
        self._reports = reports
        self._wake = trio.Event()
        self._stopped = trio.Event()
        self._refusal = ""

    async def run(self) -> None:
        """Register, then send heartbeats until the broker has stopped. Raises SourceStopped."""
        register_until = trio.current_time() + self._registration_timeout_s
        while True:
            self._require_own_registration(register_until)
            request = self.lifecycle.next_request(
                self._loader.next_offset - 1, is_ready=self.is_ready
            )
            if request is None:
                self._stopped.set()
                return
            if isinstance(request, BrokerRegistrationRequest):
                pause = await self._register(request)
            else:
                response = await self._requests.send(request, _HEARTBEAT_VERSION)
                if response is not None:
                    self._heard(response)
                pause = self._pause()
            with trio.move_on_after(pause):
                await self._wake.wait()
            self._wake = trio.Event()

    def _require_own_registration(self, register_until: float) -> None:
        """Raise SourceStopped if this broker was not registered in time, or another process has
        registered it since.
        """
        lifecycle = self.lifecycle
        own = self._loader.image.brokers.get(lifecycle.broker_id)
        if lifecycle.is_registered and own is not None and lifecycle.is_superseded(own):
            raise SourceStopped(
                f"broker {lifecycle.broker_id} was registered by another process, incarnation "
                f"{own.incarnation_id}: two nodes have the same node.id. Give one of them another, "
                "and restart it"
            )
        if trio.current_time() < register_until or lifecycle.is_registered or self._is_hindered:
            return
        raise SourceStopped(
            f"broker {lifecycle.broker_id} could not be registered with the controllers within "
            f"initial.broker.registration.timeout.ms: {self._refusal or 'no controller answers'}"
        )

    @property
    def _is_hindered(self) -> bool:
        return bool(self._hindrance())

    async def _register(self, request: BrokerRegistrationRequest) -> float:
        # A controller without a metadata.version refuses everything.
        if not self._loader.image.metadata_version:
            return _SOON_S
        hindrance = self._hindrance()
        if hindrance is not None:
            if hindrance:
                self._refused(hindrance)
                self.settled.set()
            return _SOON_S
        response = await self._requests.send(request, _REGISTRATION_VERSION)
        if response is None:
            return _SOON_S
        self.lifecycle.on_registered(response)
        if response.error_code:
            self._refused(error_name(response.error_code))
            return _REFUSED_S
        self._reports.report("broker registered", broker_epoch=self.lifecycle.epoch)
        return 0.0

    def _refused(self, reason: str) -> None:
        # Once: the registration is sent again until the reason is gone.
        if reason != self._refusal:
            self._reports.report("broker not registered", error=reason)
        self._refusal = reason

    def _heard(self, response: object) -> None:
        before = self.lifecycle.state
        self.lifecycle.on_heartbeat(response)  # type: ignore[arg-type]
        if self.lifecycle.state is BrokerState.RUNNING is not before:
            self._reports.report("broker unfenced", broker_epoch=self.lifecycle.epoch)
            self.settled.set()

    def _pause(self) -> float:
        settled = self.lifecycle.state is BrokerState.RUNNING
        return self._interval_s if settled else _SOON_S

    def directory_failed(self, id: Uuid) -> None:
        """Tell the controller at once that a log directory is offline."""
        self.lifecycle.directory_failed(id)
        self._wake.set()

    async def shut_down(self, timeout_s: float) -> None:
        """Have the leaderships of this broker moved away, for at most ``timeout_s``."""
        self.lifecycle.shut_down()
        self._wake.set()
        with trio.move_on_after(timeout_s):
            await self._stopped.wait()
