"""Defines the messages between the node and its workers, and their bytes.

A frame is a length and a pickled message. Both ends are the same program: the node starts each
worker with one end of a socket pair, which no other process can open. Bytes of clients are only
values in a message. Python's ``multiprocessing.Connection`` has this form, too.
"""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.sources.followed_log import LogState
from kwire.frame import frame

if TYPE_CHECKING:
    from gateway.config.config import Config
    from gateway.handlers.context import Peer
    from gateway.server.workers.worker_counts import WorkerCounts

#: Maximum size of a message, bytes: that of a response.
MESSAGE_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class NodeState:
    """The node's state, as far as workers need it for responses.

    ``log`` is that of the metadata partition, ``audit`` that of the audit partition (None without
    one). ``audit_nodes`` as in ``gateway.ports.services.Audit``.
    """

    log: LogState
    cluster_id: str
    leader_id: int = -1
    kraft_version: int = 0
    audit: LogState | None = None
    audit_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """Node to worker, first: the facts with which the worker begins.

    ``listeners`` are (name, host, port, descriptor) of sockets that the worker inherits.
    ``log_directory`` has the files of the metadata partition where a quorum is behind it, and
    ``audit_directory`` those of the audit partition, if there is one. ``log_dir`` as in
    ``gateway.ports.services.Partition``.
    ``takes_changes``: the quorum is the node's own.
    """

    worker: int
    config: Config
    listeners: tuple[tuple[str, str, int, int], ...]
    state: NodeState
    log_dir: str = ""
    log_directory: str | None = None
    audit_directory: str | None = None
    takes_changes: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """Worker to node: its listeners accept connections."""


@dataclass(frozen=True, slots=True)
class Draining:
    """Worker to node: its listeners accept no connections any more."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Worker to node: it cannot start. ``problems`` are sentences."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Node to worker: drain, and end."""


@dataclass(frozen=True, slots=True)
class Request:
    """Worker to node: handle ``frame`` (header and body) of the client ``peer``."""

    number: int
    peer: Peer
    frame: bytes


@dataclass(frozen=True, slots=True)
class Cancel:
    """Worker to node: the client of the request has disconnected."""

    number: int


@dataclass(frozen=True, slots=True)
class Response:
    """Node to worker: the encoded body of the response, and the error codes in it.

    ``body`` is None where the connection has to be closed instead.
    """

    number: int
    body: bytes | None
    errors: Counter[int]


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Worker to node: tell the present state, then :class:`Synced`."""

    number: int


@dataclass(frozen=True, slots=True)
class Synced:
    """Node to worker: the state of the moment of this answer is in the messages before it."""

    number: int


@dataclass(frozen=True, slots=True)
class StatsRequest:
    """Node to worker: send :class:`StatsResponse`."""


@dataclass(frozen=True, slots=True)
class StatsResponse:
    """Worker to node: its counts since its start."""

    counts: WorkerCounts


def encode(message: Any) -> bytes:
    """Return the frame of a message."""
    return frame(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def decode(data: bytes) -> Any:
    """Return the message in a frame, which begins behind the length."""
    return pickle.loads(data)
