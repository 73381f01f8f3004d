"""Decides what a broker tells the active controller of itself: its registration and its heartbeats
(``BrokerLifecycleManager``, KIP-631).

It sends nothing: ``gateway.server.broker.broker_lifecycle_manager`` does, and reports the
responses.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kwire.messages.broker_registration_request import BrokerRegistrationRequest
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from kwire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
    from kwire.messages.broker_registration_response import BrokerRegistrationResponse
    from kwire.messages.register_broker_record import RegisterBrokerRecord
    from kwire.uuid import Uuid

#: The broker epoch of a broker that is not registered, or that did not stop cleanly before.
NO_EPOCH: Final = -1


class BrokerState(enum.Enum):
    """``BrokerState``, by Kafka's names and numbers."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class BrokerLifecycle:
    """One start of a broker, from its registration to its shutdown."""

    def __init__(self, registration: BrokerRegistrationRequest) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.epoch = NO_EPOCH
        self._last_epoch = NO_EPOCH  # of the last registration
        #: Whether the broker has been registered, which it stays through a change of its epoch.
        self.is_registered = False
        self._registration = registration
        self._offline: list[Uuid] = []  # directories that have failed since the registration

    @property
    def broker_id(self) -> int:
        """The id of the broker."""
        return self._registration.broker_id

    def is_superseded(self, registered: RegisterBrokerRecord) -> bool:
        """Whether another process has registered this broker after it."""
        is_other = registered.incarnation_id != self._registration.incarnation_id
        return is_other and registered.broker_epoch > self._last_epoch

    @property
    def directories(self) -> Sequence[Uuid]:
        """The ids of the broker's log directories that are online."""
        return self._registration.log_dirs

    def directory_failed(self, id: Uuid) -> None:
        """A log directory is offline from now on: every heartbeat names it, and no later
        registration has it.
        """
        self._offline.append(id)
        self._registration.log_dirs = [one for one in self._registration.log_dirs if one != id]

    @property
    def wants_shutdown(self) -> bool:
        """Whether the broker is to stop, and has not the controller's word for it yet."""
        return self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN

    def next_request(
        self, applied_offset: int, *, is_ready: bool
    ) -> BrokerRegistrationRequest | BrokerHeartbeatRequest | None:
        """Return what to send now; None once the broker has stopped.

        ``applied_offset``: the last offset of the metadata log that the broker has applied.
        ``is_ready``: its logs are open, and it may be unfenced.
        """
        if self.state is BrokerState.SHUTTING_DOWN:
            return None
        if self.epoch == NO_EPOCH:
            return self._registration
        return BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=applied_offset,
            want_fence=not is_ready,
            want_shut_down=self.wants_shutdown,
            offline_log_dirs=list(self._offline),
        )

    def on_registered(self, response: BrokerRegistrationResponse) -> None:
        """The controller has answered the registration."""
        if response.error_code == ErrorCode.NONE and self.epoch == NO_EPOCH:
            self.epoch = self._last_epoch = response.broker_epoch
            self.is_registered = True
            if self.state is BrokerState.NOT_RUNNING:
                self.state = BrokerState.STARTING

    def on_heartbeat(self, response: BrokerHeartbeatResponse) -> None:
        """The controller has answered a heartbeat."""
        if response.error_code == ErrorCode.STALE_BROKER_EPOCH:
            # Unregistered by an administrator: a broker of Kafka registers again.
            self.epoch = NO_EPOCH
        if response.error_code != ErrorCode.NONE:
            return
        if self.state is BrokerState.STARTING and response.is_caught_up:
            self.state = BrokerState.RECOVERY
        if self.state is BrokerState.RECOVERY and not response.is_fenced:
            self.state = BrokerState.RUNNING
        if self.wants_shutdown and response.should_shut_down:
            self.state = BrokerState.SHUTTING_DOWN

    def shut_down(self) -> None:
        """Begin a controlled shutdown: the controller moves the leaderships of the broker away. A
        broker that is not registered has none.
        """
        self.state = (
            BrokerState.SHUTTING_DOWN
            if self.epoch == NO_EPOCH
            else BrokerState.PENDING_CONTROLLED_SHUTDOWN
        )
