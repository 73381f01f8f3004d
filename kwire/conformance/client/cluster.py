"""Listens as the nodes of a scripted cluster, one port each, and answers requests in threads.

A connection has two threads: one notes each request when it arrives, one answers in order, as a
broker does. The answers come from ``answers*``, their faults from ``faults``.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from kwire.conformance.client import answers, answers_fetch, answers_group
from kwire.conformance.client.answers_sasl import SaslState
from kwire.conformance.client.faults import Answer, Fault, Faults
from kwire.conformance.client.state import State
from kwire.conformance.client.traffic import Link, Seen, Traffic
from kwire.conformance.outcome import RuleFailed
from kwire.errors import WireError
from kwire.frame import FrameSplitter
from kwire.header import decode_request_header
from kwire.protocol import ApiKey
from kwire.registry import request_type

_CHUNK: Final = 1 << 16
#: The largest request that is read, and the requests of a connection that wait for their answers.
_FRAME_MAX: Final = 16 * 1024 * 1024
_WAITING_MAX: Final = 1000
#: Array elements and unknown tagged fields of a request: it is about one topic of one partition.
_ELEMENTS_MAX: Final = 200
#: The pause between two looks whether a request can still be handed over, s.
_HAND_OVER_S: Final = 0.5
#: The longest wait of a Fetch without records, s.
_FETCH_WAIT_MAX_S: Final = 1.0

_HANDLERS: Final[dict[int, Callable[[State, Seen, int], Any]]] = {
    ApiKey.API_VERSIONS: answers.api_versions,
    ApiKey.METADATA: answers.metadata,
    ApiKey.FIND_COORDINATOR: answers.find_coordinator,
    ApiKey.INIT_PRODUCER_ID: answers.init_producer_id,
    ApiKey.PRODUCE: answers.produce,
    ApiKey.LIST_OFFSETS: answers_fetch.list_offsets,
    ApiKey.FETCH: answers_fetch.fetch,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: answers_fetch.offset_for_leader_epoch,
    ApiKey.JOIN_GROUP: answers_group.join_group,
    ApiKey.SYNC_GROUP: answers_group.sync_group,
    ApiKey.HEARTBEAT: answers_group.heartbeat,
    ApiKey.LEAVE_GROUP: answers_group.leave_group,
    ApiKey.OFFSET_COMMIT: answers_group.offset_commit,
    ApiKey.OFFSET_FETCH: answers_group.offset_fetch,
}


class Cluster:
    """``with Cluster(state, nodes=2) as cluster`` listens at ``cluster.bootstrap``."""

    def __init__(self, state: State, nodes: int = 1) -> None:
        self.state = state
        self.traffic = Traffic()
        self.faults = Faults()
        #: Called with each new connection; False closes it at once.
        self.admits: Callable[[Link], bool] = lambda link: True
        self.mechanisms: tuple[str, ...] = ("PLAIN",)
        #: An exception of a fault or an answer, or too much traffic, which ends the check.
        self.broken: Exception | None = None
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._listeners: dict[int, socket.socket] = {}
        for node in range(1, nodes + 1):
            listener = socket.create_server(("127.0.0.1", 0), backlog=64)
            self._listeners[node] = listener
            state.nodes[node] = ("127.0.0.1", int(listener.getsockname()[1]))
        self.bootstrap = "{}:{}".format(*state.nodes[1])

    def __enter__(self) -> Self:
        for node, listener in self._listeners.items():
            threading.Thread(target=self._accept, args=(node, listener), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the listeners and every connection."""
        self._stopped.set()
        for listener in self._listeners.values():
            _close(listener)
        with self._lock:
            for one in self._sockets:
                _close(one)

    def fail(self, error: Exception) -> None:
        """End the check, with the first error."""
        if self.broken is None:
            self.broken = error
        self.traffic.notify()

    def closed(self, connection: socket.socket, link: Link, *, by_cluster: bool) -> None:
        """Close a connection and forget it."""
        _close(connection)
        with self._lock:
            self._sockets.discard(connection)
        self.traffic.closed(link, by_cluster=by_cluster)

    def fault(self, fault: Fault) -> Fault:
        """Add ``fault``, for requests that arrive from now on; return it."""
        return self.faults.add(fault)

    def _accept(self, node: int, listener: socket.socket) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            try:
                link = self.traffic.open(node)
            except RuleFailed as error:
                _close(connection)
                self.fail(error)
                return
            if not self.admits(link):
                self.closed(connection, link, by_cluster=True)
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets.add(connection)
            serving = _Serving(self, connection, link)
            threading.Thread(target=serving.read, daemon=True).start()
            threading.Thread(target=serving.answer, daemon=True).start()

    def pause(self, seconds: float) -> None:
        """Wait, unless the cluster is closed before."""
        self._stopped.wait(seconds)

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._stopped.is_set()


class _Serving:
    """One connection."""

    def __init__(self, cluster: Cluster, connection: socket.socket, link: Link) -> None:
        self._cluster, self._connection, self._link = cluster, connection, link
        self._waiting: queue.Queue[Seen | None] = queue.Queue(_WAITING_MAX)
        self._sasl = SaslState()
        # Each is written by one thread only.
        self._read = self._finished = 0
        self._has_ended = False

    def read(self) -> None:
        """Note requests until the client closes the connection, sends what is no request, or sends
        too much.
        """
        splitter = FrameSplitter(_FRAME_MAX)
        try:
            while data := self._connection.recv(_CHUNK):
                self._cluster.traffic.count(len(data))
                splitter.feed(data)
                while (found := splitter.next_frame()) is not None:
                    self._hand_over(self._noted(found))
        except (OSError, WireError):
            pass
        except RuleFailed as error:
            self._cluster.fail(error)
        self._hand_over(None)

    def _hand_over(self, seen: Seen | None) -> None:
        """Give a request, or None at the end, to the thread that answers, while there is one."""
        while not self._has_ended:
            with contextlib.suppress(queue.Full):
                self._waiting.put(seen, timeout=_HAND_OVER_S)
                return

    def _noted(self, data: bytes) -> Seen:
        header, start = decode_request_header(data)
        api, version = header.request_api_key, header.request_api_version
        form = request_type(api)
        too_new = api == ApiKey.API_VERSIONS and version not in form.VERSIONS
        request = form() if too_new else form.decode(data[start:], version, budget=_ELEMENTS_MAX)
        self._read += 1
        return self._cluster.traffic.add(
            lambda number: Seen(
                number, time.monotonic(), self._link, api, version, header.correlation_id,
                header.client_id, request, data, in_flight=self._read - self._finished,
            )
        )  # fmt: skip

    def answer(self) -> None:
        """Answer the requests, one after another."""
        by_cluster = False
        try:
            while (seen := self._waiting.get()) is not None:
                if not self._answered(seen):
                    by_cluster = True
                    break
        except OSError:
            pass  # the client closed it
        except Exception as error:
            self._cluster.fail(error)
        self._has_ended = True
        self._cluster.closed(self._connection, self._link, by_cluster=by_cluster)

    def _answered(self, seen: Seen) -> bool:
        """Send the answer. False: the connection has to be closed."""
        cluster = self._cluster
        if self._sasl.has_ended(seen, cluster.state):
            seen.fault = "the SASL session has ended"
            return False
        low, high = answers.offered(cluster.state).get(seen.api, (0, -1))
        if not low <= seen.version <= high and seen.api != ApiKey.API_VERSIONS:
            seen.fault = "the version is not offered"
            return False
        faults = cluster.faults.of(seen)
        body = self._body(seen, next((fault.error for fault in faults if fault.error), 0))
        if body is None:
            self._finished += 1
            return True
        answer = Answer(seen, body)
        for fault in faults:
            if fault.act is not None:
                fault.act(answer)
        return self._sent(answer)

    def _body(self, seen: Seen, error: int) -> Any:
        state = self._cluster.state
        if seen.api in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            return self._sasl.answer(state, seen, error, self._cluster.mechanisms)
        deadline = seen.at
        if seen.api == ApiKey.FETCH:
            deadline += min(seen.request.max_wait_ms / 1000, _FETCH_WAIT_MAX_S)
        while True:
            with state.lock:
                body = _HANDLERS[seen.api](state, seen, error)
            waits = seen.api == ApiKey.FETCH and answers_fetch.has_nothing(body)
            if not waits or time.monotonic() >= deadline or self._cluster.is_closed:
                return body
            self._cluster.traffic.wait(deadline)

    def _sent(self, answer: Answer) -> bool:
        seen, data = answer.seen, answer.encoded()
        if answer.delay_s:
            self._cluster.pause(answer.delay_s)
        if answer.cut is not None:
            data = data[: answer.cut]
        self._cluster.traffic.count(len(data))
        if data:
            seen.answer, seen.answered_at = data[4:], time.monotonic()
        self._finished += 1  # before it is sent: then the client may send the next request
        step = answer.piece or max(len(data), 1)
        for start in range(0, len(data), step):
            self._connection.sendall(data[start : start + step])
        self._cluster.traffic.notify()
        return answer.cut is None


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        one.close()
