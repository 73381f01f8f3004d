"""Gives a check its connections, requests and verdicts. The runner makes a probe for each rule."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, cast

from kwire.conformance.connection import Connection, PeerClosed
from kwire.conformance.outcome import (
    KafkaDeviates,
    NotApplicable,
    NotOffered,
    ProbeTimeout,
    RoundTrip,
    RuleFailed,
    Unreadable,
)
from kwire.conformance.rule import Rule
from kwire.conformance.session import CLIENT_ID, Session
from kwire.errors import DecodeError
from kwire.header import decode_response_header, encode_request_header
from kwire.message import Message
from kwire.protocol import ApiKey, error_name
from kwire.registry import request_type, response_type

#: How long a server may take to close a connection after bytes that are no request. Half the time
#: of the probe, if that is less.
_CLOSE_S: Final = 5.0
#: How long a check listens to see that nothing comes.
QUIET_S: Final = 0.3
#: Array elements of one response; more are not decoded.
_ELEMENTS_MAX: Final = 250_000


class Probe:
    """The tools of one check. The runner closes its connections and keeps their round trips."""

    def __init__(self, session: Session, rule: Rule, deadline: float | None = None) -> None:
        self.session = session
        self.rule = rule
        self.deadline = time.monotonic() + session.timeout_s if deadline is None else deadline
        self._connections: list[Connection] = []
        self._correlation_ids = itertools.count(7)
        self._undos: list[tuple[str, Callable[[], None]]] = []

    # --- connections and requests -------------------------------------------------------------

    def connect(self, *, authenticated: bool = True) -> Connection:
        """Return a new connection. Raises OSError."""
        target = self.session.target
        opener = target.open if authenticated else target.open_unauthenticated
        stream = opener(max(self.deadline - time.monotonic(), 0.01))
        connection = Connection(stream, self.deadline, large=self.session.large)
        self._connections.append(connection)
        return connection

    def round_trips(self) -> list[RoundTrip]:
        """Return the frames sent and received so far, connection by connection."""
        return [round_trip for one in self._connections for round_trip in one.round_trips]

    def output(self) -> dict[str, str]:
        """Return nothing: a server prints nothing that a rule sees."""
        return {}

    def close(self) -> None:
        """Undo what the check made, and close all connections."""
        self._undo()
        for connection in self._connections:
            connection.close()

    def encode(
        self, request: Message, version: int, *, client_id: str | None = CLIENT_ID
    ) -> tuple[int, bytes]:
        """Return (correlation id, frame without its size) of a request with a correlation id of
        its own.
        """
        number = next(self._correlation_ids)
        header = encode_request_header(api_of(request), version, number, client_id)
        return number, header + request.encode(version)

    def call(
        self, request: Message, version: int | None = None, on: Connection | None = None
    ) -> Any:
        """Send a request on a connection, and return its decoded response. By default that is a
        new connection, which is closed then: a check that waits may ask a thousand times.

        ``version``: the newest that server and codec share by default. Fails the rule if the
        response is not one to this request, or has bytes that the schema does not explain.
        """
        if version is None:
            version = self.newest(api_of(request))
        connection = self.connect() if on is None else on
        try:
            number, data = self.encode(request, version)
            connection.send_request(data, api_of(request), version)
            return self.receive(connection, api_of(request), version, number)
        finally:
            if on is None:
                connection.close()

    def receive(self, connection: Connection, api: ApiKey, version: int, number: int) -> Any:
        """Return the decoded response to request ``number`` of ``api``. Fails as :meth:`call`."""
        try:
            data = connection.receive()
        except PeerClosed:
            self.fail(f"the connection was closed in place of an answer to {api.title} v{version}")
        try:
            return self.decode(data, api, version, number)
        finally:
            connection.release_large()

    def decode(self, data: bytes, api: ApiKey, version: int, number: int) -> Any:
        """Return the response in a frame. Fails the rule as :meth:`call` does."""
        form = response_type(api)
        what = f"the answer to {api.title} v{version}"
        try:
            header, body = decode_response_header(api, version, data, budget=_ELEMENTS_MAX)
            if header.correlation_id != number:
                said = (
                    f"{what} has correlation id {header.correlation_id}, the request had {number}"
                )
                raise Unreadable(said, api, version)
            return form.decode(memoryview(data)[body:], version, budget=_ELEMENTS_MAX)
        except DecodeError as error:
            said = f"{what} does not follow the schema: {error}"
            raise Unreadable(said, api, version) from None

    # --- what the server offers ---------------------------------------------------------------

    def newest(self, api: ApiKey, at_most: int = 32767) -> int:
        """The newest version that server and codec share, no newer than ``at_most``. Raises
        NotOffered.
        """
        shared = [version for version in self.session.versions(api) if version <= at_most]
        if not shared:
            raise NotOffered(f"{api.title} is not offered in a version that the rule can use")
        return shared[-1]

    def need(self, api: ApiKey, *versions: int) -> int:
        """The newest of ``versions`` that is offered. Raises NotOffered."""
        offered = [version for version in versions if version in self.session.versions(api)]
        if not offered:
            wanted = ", ".join(map(str, versions))
            raise NotOffered(f"{api.title} is not offered in version {wanted}")
        return max(offered)

    # --- verdicts -----------------------------------------------------------------------------

    def fail(self, sentence: str) -> NoReturn:
        """End the check: the rule is broken. ``sentence`` has the server's behaviour."""
        raise RuleFailed(sentence)

    def expect(self, holds: bool, sentence: str) -> None:
        """Fail the rule with ``sentence`` unless ``holds``."""
        if not holds:
            raise RuleFailed(sentence)

    def expect_error(self, code: int, *allowed: int, where: str = "the answer") -> None:
        """Fail the rule unless ``code`` is one of the error codes ``allowed``."""
        if code not in allowed:
            wanted = " or ".join(error_name(one) for one in allowed)
            raise RuleFailed(f"{where} has error {error_name(code)}, not {wanted}")

    @property
    def close_s(self) -> float:
        """How long a server may take to close a connection, s."""
        return min(_CLOSE_S, self.session.timeout_s / 2)

    def expect_close(self, connection: Connection, after: str) -> None:
        """Fail the rule unless the server closes the connection; ``after`` names what it got."""
        wait_s = self.close_s
        ended = connection.ends(wait_s)
        if isinstance(ended, bytes):
            self.fail(f"the server answered {after} with {len(ended)} bytes; it has to close")
        if not ended:
            self.fail(f"the connection stayed open for {wait_s:g} s after {after}")

    def deviates(self, sentence: str, kafka_class: str) -> NoReturn:
        """End the check: the server breaks the rule in the way ``kafka_class`` of Kafka does."""
        raise KafkaDeviates(sentence, kafka_class)

    def not_applicable(self, sentence: str) -> NoReturn:
        """End the check: the rule cannot be applied to this server."""
        raise NotApplicable(sentence)

    # --- waiting and cleaning up --------------------------------------------------------------

    def until(self, found: Callable[[], Any], what: str) -> Any:
        """Return the first value of ``found()`` that is not None or False; ask again until the
        deadline.
        """
        while True:
            value = found()
            if value is not None and value is not False:
                return value
            if time.monotonic() + 0.1 > self.deadline:
                raise ProbeTimeout(f"{what} did not come about in time")
            time.sleep(0.05)

    def after_rule(self, what: str, undo: Callable[[], None]) -> None:
        """Call ``undo`` when the check has ended, and again at the end of the run if that fails.
        ``what`` names the thing.
        """
        self._undos.append((what, undo))

    def _undo(self) -> None:
        """Undo what the check made, newest first."""
        while self._undos:
            what, undo = self._undos.pop()
            try:
                undo()
            except Exception:  # the end of the run tries it again, and reports it
                self.session.on_end(what, undo)

    @contextlib.contextmanager
    def other_probe(self) -> Iterator[Probe]:
        """Yield a probe with a deadline of its own, to create resources that rules share and to
        delete resources. Its deadline is at most one timeout after that of this probe, or the
        deadline of the clean-up.
        """
        last = self.session.clean_up_deadline
        if last is None:
            last = self.deadline + self.session.timeout_s
        other = Probe(self.session, self.rule, min(time.monotonic() + self.session.timeout_s, last))
        try:
            yield other
        finally:
            other.close()


def api_of(request: Message) -> ApiKey:
    """The API of a request."""
    return ApiKey(cast(int, request.API_KEY))


def request_of(api: ApiKey) -> type[Message]:
    """The request class of an API."""
    return request_type(api)
