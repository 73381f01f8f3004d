"""Counts one request of a client in its quotas, and says how long its connection is muted
(``RequestHandlerHelper``, ``KafkaApis``; KIP-219: the response is sent first).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.broker.quotas.quota_limits import user_of

if TYPE_CHECKING:
    from gateway.broker.quotas.client_quota_manager import ClientQuotaManager
    from gateway.broker.quotas.client_quotas import ClientQuotas

#: ``request_percentage`` is in percent of the time of one thread.
_PERCENT: Final = 100.0


class RequestQuota:
    """The part of one request in the quotas of its client.

    The server tells when it works on the request (:meth:`resumed`, :meth:`paused`, :meth:`spent`),
    and asks :meth:`answered` once for the throttle time when the response is there.
    """

    __slots__ = ("_began", "_client_id", "_is_counted", "_quotas", "_seconds", "_user",
        "is_exempt", "produced", "throttle_ms")  # fmt: skip

    def __init__(
        self, quotas: ClientQuotas, principal: str, client_id: str | None, began: float
    ) -> None:
        """The request is handled since ``began``, s on the clock. ``principal``: type and name of
        the client, whose name is the user.
        """
        self._quotas = quotas
        self._user = user_of(principal)
        self._client_id = client_id or ""
        self._began: float | None = began
        self._seconds = 0.0
        self._is_counted = False
        #: A request of another broker: its time is no client's.
        self.is_exempt = False
        #: The bytes of a Produce request; None: it is another one.
        self.produced: int | None = None
        #: For how long the connection is muted, ms.
        self.throttle_ms = 0

    # --- time

    def paused(self) -> None:
        """The server has worked on the request until now."""
        if self._began is not None:
            began, self._began = self._began, None
            self.spent(self._quotas.clock() - began)

    def spent(self, seconds: float) -> None:
        """The server worked on the request for so long. After the response it counts for the next
        requests.
        """
        if not self._is_counted:
            self._seconds += seconds
        elif not self.is_exempt:
            self._quotas.request.record_only(
                self._user, self._client_id, seconds * _PERCENT, self._quotas.now_ms()
            )

    # --- a Fetch

    def fetch_bytes_max(self) -> float:
        """The bytes that a response may have without being throttled: infinity without a quota."""
        return self._quotas.fetch.most_at_once(self._user, self._client_id)

    @property
    def counts_fetched(self) -> bool:
        """Whether the client has a quota of the bytes of responses to Fetch."""
        return self._quotas.fetch.limits.find(self._user, self._client_id) is not None

    def fetched(self, size: int) -> bool:
        """Count a response of ``size`` bytes, which says nothing without :attr:`counts_fetched`;
        False if the client is throttled: nothing of it is counted, and the response is to be empty
        (``handleFetchRequest``).
        """
        now_ms, fetch = self._quotas.now_ms(), self._quotas.fetch
        by_time = self._count_time(now_ms)
        by_bytes = fetch.record(self._user, self._client_id, size, now_ms)
        if not by_time and not by_bytes:
            return True
        fetch.record_only(self._user, self._client_id, -size, now_ms)
        self._throttle(fetch, by_bytes, by_time, now_ms)
        return False

    # --- every response

    def answered(self, named_ms: int = 0) -> int:
        """Count the request, and return the throttle time that its response names, ms.

        ``named_ms``: the time that the response names already, as that of the controller does.
        """
        now_ms = self._quotas.now_ms()
        by_time = 0 if self._is_counted else self._count_time(now_ms)
        manager, by_other = self._quotas.mutations, named_ms
        if self.produced is not None:
            manager = self._quotas.produce
            by_other = manager.record(self._user, self._client_id, self.produced, now_ms)
        if not self.throttle_ms:
            self._throttle(manager, by_other, by_time, now_ms)
        return max(self.throttle_ms, named_ms)

    def _count_time(self, now_ms: int) -> int:
        """Count the time so far, and return the throttle time for it."""
        self._is_counted = True
        if self.is_exempt:
            return 0
        seconds, self._seconds = self._seconds, 0.0
        if self._began is not None:
            now = self._quotas.clock()
            seconds, self._began = seconds + now - self._began, now
        return self._quotas.request.record(self._user, self._client_id, seconds * _PERCENT, now_ms)

    def _throttle(
        self, manager: ClientQuotaManager, by_other: int, by_time: int, now_ms: int
    ) -> None:
        self.throttle_ms = max(by_other, by_time)
        if self.throttle_ms > 0:
            cause = manager if by_other > by_time else self._quotas.request
            cause.is_throttled(self._user, self._client_id, self.throttle_ms, now_ms)
