"""Describes answers and the faults that a rule puts into them: errors, delays, cuts, bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.conformance.client.traffic import Seen
from kwire.frame import frame
from kwire.header import encode_response_header, response_header_version
from kwire.messages.response_header import ResponseHeader
from kwire.protocol import ApiKey

EVER: Final = 1 << 30
#: A tag that no schema has.
UNKNOWN_TAG: Final = 9999


@dataclass
class Answer:
    """An answer before it is sent. A fault changes it in place."""

    seen: Seen
    body: Any
    #: Bytes of the header in place of the usual ones.
    header: bytes | None = None
    delay_s: float = 0.0
    #: The whole frame, size included, in place of the encoded answer.
    data: bytes | None = None
    #: So many bytes are sent, size included; then the connection is closed.
    cut: int | None = None
    #: Bytes of a segment.
    piece: int | None = None

    def encoded(self) -> bytes:
        """The bytes to send, size included."""
        if self.data is not None:
            return self.data
        key, version = self.seen.api, self.version()
        header = self.header
        if header is None:
            header = encode_response_header(key, version, self.seen.correlation_id)
        return frame(header, self.body.encode(version))

    def version(self) -> int:
        """The version of the body: 0 in place of a version of ApiVersions that is not offered."""
        too_new = self.seen.api == ApiKey.API_VERSIONS and self.body.error_code == 35
        return 0 if too_new else self.seen.version

    def add_header_tag(self) -> None:
        """Put an unknown tagged field into the header, if this version of it can have one."""
        version = response_header_version(self.seen.api, self.version())
        if version:
            self.header = ResponseHeader(
                correlation_id=self.seen.correlation_id, unknown_tags=[(UNKNOWN_TAG, b"kwire")]
            ).encode(version)


@dataclass
class Fault:
    """A fault of the answers to some requests.

    ``error``: the request is refused with this code and changes nothing. ``act`` changes the answer
    in place. ``when`` selects requests; the fault happens to the first ``times`` of them.
    """

    says: str
    api: ApiKey | None = None
    error: int = 0
    act: Callable[[Answer], object] | None = None
    when: Callable[[Seen], bool] | None = None
    times: int = 1
    happened: list[Seen] = field(default_factory=list)

    def takes(self, seen: Seen) -> bool:
        """Whether the fault happens to this request."""
        return (
            len(self.happened) < self.times
            and (self.api is None or self.api == seen.api)
            and (self.when is None or self.when(seen))
        )


class Faults:
    """The faults of a cluster, which connections ask for from their threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        """Add ``fault``, for requests that arrive from now on; return it."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def of(self, seen: Seen) -> Sequence[Fault]:
        """The faults that happen to a request; of those with an error only the first."""
        found: list[Fault] = []
        with self._lock:
            for fault in self._faults:
                refused = any(one.error for one in found)
                if fault.takes(seen) and not (fault.error and refused):
                    fault.happened.append(seen)
                    found.append(fault)
        if found:
            seen.fault = "; ".join(fault.says for fault in found)
        return found


def close_before(answer: Answer) -> None:
    """Close the connection without an answer."""
    answer.cut = 0


def cut_half(answer: Answer) -> None:
    """Close the connection in the middle of the answer."""
    answer.cut = max(5, len(answer.encoded()) // 2)


def byte_by_byte(answer: Answer) -> None:
    """Send each byte in a segment of its own."""
    answer.piece = 1


def later(seconds: float) -> Callable[[Answer], None]:
    """Send the answer ``seconds`` later."""

    def act(answer: Answer) -> None:
        answer.delay_s = seconds

    return act


def in_partitions(**values: Any) -> Callable[[Answer], None]:
    """Set fields of every partition of a Fetch answer."""

    def act(answer: Answer) -> None:
        for topic in answer.body.responses:
            for partition in topic.partitions:
                for name, value in values.items():
                    setattr(partition, name, value)

    return act


def with_records(change: Callable[[bytes], bytes]) -> Callable[[Answer], None]:
    """Change the records of a Fetch answer."""

    def act(answer: Answer) -> None:
        for topic in answer.body.responses:
            for partition in topic.partitions:
                partition.records = change(partition.records or b"")

    return act


def names_data(seen: Seen) -> bool:
    """Whether a Fetch or Produce request names a partition. Java sends Fetch without one, to end a
    session.
    """
    return bool(seen.request.topics if seen.api == ApiKey.FETCH else seen.request.topic_data)
