"""The seeded faults, each with the rule that is named for it."""

from __future__ import annotations

import struct
from typing import Any

from kwire.frame import frame
from kwire.header import peek
from kwire.protocol import ApiKey
from tests.conformance_faults.proxy import Bytes, Changed, Fault

_KEY = ApiKey.API_VERSIONS


class HiddenClose(Fault):
    """Connections stay open that the server has closed."""

    hides_close = True


class OneFrameAReceive(Fault):
    """The server takes what one recv gives for one request."""

    def received(self, data: bytes) -> bytes | None:
        size = struct.unpack(">i", data[:4])[0] if len(data) >= 4 else -1
        return data if size + 4 == len(data) else None


class AnswersHalfSize(Fault):
    """A server that answers before it has the whole size: any two bytes."""

    def __init__(self) -> None:
        self._answered = False

    def received(self, data: bytes) -> bytes | None:
        return data if len(data) != 2 else None


class FirstFrameOnly(Fault):
    """Of several requests in one segment the server sees the first one."""

    loses_responses = True
    time_s = 4.0

    def received(self, data: bytes) -> bytes | None:
        if len(data) < 4:
            return data
        size = struct.unpack(">i", data[:4])[0]
        return data[: size + 4] if 0 < size < len(data) else data


class Swapped(Fault):
    """Two responses change places."""

    def __init__(self) -> None:
        self._held: bytes | None = None

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        if peek(request)[0] == ApiKey.METADATA and self._held is None:
            self._held = frame(response)
            return []
        held, self._held = self._held, None
        return [frame(response)] if held is None else [frame(response), held]


class Twice(Fault):
    """Every response comes twice."""

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        return [frame(response), frame(response)]


class Lost(Fault):
    """The responses of one API are lost."""

    loses_responses = True
    time_s = 4.0

    def __init__(self, api: int) -> None:
        self._api = api

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        return [] if peek(request)[0] == self._api else [frame(response)]


class CorrelationId(Fault):
    """Correlation ids come back changed."""

    def __init__(self, change: Any) -> None:
        self._change = change

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        (number,) = struct.unpack(">i", response[:4])
        return [frame(struct.pack(">i", self._change(number)), response[4:])]


class ClosedByClientId(Fault):
    """Requests with certain client ids are not taken."""

    def __init__(self, *refused: str | None) -> None:
        self._refused = refused

    def request(self, data: bytes) -> bytes:
        (size,) = struct.unpack(">h", data[8:10])
        name = None if size < 0 else data[10 : 10 + size].decode()
        return b"\xff" if name in self._refused else data


class RefusedTags(Fault):
    """Requests with unknown tagged fields of one API are not taken."""

    def request(self, data: bytes) -> bytes:
        return b"\xff" if b"kwire" in data[20:] and b"\x8f\x4e" in data else data


def _set(**values: Any) -> Any:
    def change(answer: Any, request: Any) -> None:
        for name, value in values.items():
            setattr(answer, name, value)

    return change


def _without_key(answer: Any, request: Any) -> None:
    answer.api_keys = [key for key in answer.api_keys if key.api_key != _KEY]


def _keys(change: Any) -> Any:
    def changed(answer: Any, request: Any) -> None:
        answer.api_keys = change(list(answer.api_keys))

    return changed


def _raise_key(answer: Any, request: Any) -> None:
    for key in answer.api_keys:
        if key.api_key == _KEY:
            key.min_version = 1


def _upside_down(answer: Any, request: Any) -> None:
    for key in answer.api_keys:
        if key.api_key == ApiKey.FETCH:
            key.min_version, key.max_version = 9, 8


def _strange(answer: Any, request: Any) -> None:
    answer.api_keys = [*answer.api_keys, answer.api_keys[0].copy(api_key=20000)]


class DifferentEachTime(Changed):
    """Every second answer lacks an API."""

    def __init__(self) -> None:
        super().__init__(_KEY, self._drop)
        self._count = 0

    def _drop(self, answer: Any, request: Any) -> None:
        self._count += 1
        if self._count % 2:
            answer.api_keys = list(answer.api_keys)[1:]


def _refusal(change: Any) -> Fault:
    def changed(answer: Any, request: Any) -> None:
        if answer.error_code == 35:
            change(answer)

    return Changed(_KEY, changed)


#: (name of the fault, rule that finds it, fault).
FAULTS: list[tuple[str, str, Fault]] = [
    ("a segment is taken for a request", "framing.one-byte-at-a-time", OneFrameAReceive()),
    ("two bytes of a size are too few", "framing.split-in-size", AnswersHalfSize()),
    ("of a segment the first request is read", "framing.many-at-once", FirstFrameOnly()),
    ("two responses change places", "framing.answers-in-order", Swapped()),
    ("every response comes twice", "framing.no-answer-twice", Twice()),
    ("negative ids lose their sign", "framing.correlation-id-negative", CorrelationId(abs)),
    ("the lowest id comes back as 0", "framing.correlation-id-lowest",
     CorrelationId(lambda number: 0 if number == -(1 << 31) else number)),
    ("ids wrap one too early", "framing.correlation-id-highest",
     CorrelationId(lambda number: 0 if number == (1 << 31) - 1 else number)),
    ("ids are counted by the server", "framing.correlation-id-repeated",
     CorrelationId(lambda number: max(number, 9))),
    ("no client id is refused", "framing.client-id-null", ClosedByClientId(None)),
    ("an empty client id is refused", "framing.client-id-empty", ClosedByClientId("")),
    ("a long client id is refused", "framing.client-id-long", ClosedByClientId("c" * 1000)),
    ("a client id beyond ASCII is refused", "framing.client-id-unicode",
     ClosedByClientId('ü€😀 "=,:*?')),
    ("size 0 leaves the connection open", "framing.size-zero", HiddenClose()),
    ("size -1 leaves the connection open", "framing.size-negative", HiddenClose()),
    ("a size above the limit is waited for", "framing.size-above-limit", HiddenClose()),
    ("a short header leaves the connection open", "framing.header-short", HiddenClose()),
    ("unknown keys leave the connection open", "framing.api-key-unknown", HiddenClose()),
    ("a truncated request leaves the connection open", "schema.Metadata.v12.truncated",
     HiddenClose()),
    ("a version too high leaves the connection open", "versions.Metadata.above-highest",
     HiddenClose()),
    ("unknown tags close the connection", "schema.Metadata.v12.unknown-tags", RefusedTags()),
    ("a byte is left over", "schema.Metadata.v12.answered",
     Bytes(ApiKey.METADATA, lambda data: data + b"\0")),
    ("the last byte is missing", "schema.Metadata.v9.answered",
     Bytes(ApiKey.METADATA, lambda data: data[:-1])),
    ("an error code that Kafka lacks", "schema.FindCoordinator.v2.answered",
     Changed(ApiKey.FIND_COORDINATOR, _set(error_code=999))),
    ("a varint of two bytes where one does", "schema.DescribeCluster.v0.answered",
     Bytes(ApiKey.DESCRIBE_CLUSTER, lambda data: data[:-1] + b"\x80\0")),
    ("a response is lost", "schema.Metadata.v5.answered", Lost(ApiKey.METADATA)),
    ("a too new ApiVersions has no error", "api-versions.too-new",
     _refusal(lambda answer: setattr(answer, "error_code", 0))),
    ("the refusal lacks ApiVersions", "api-versions.too-new-names-range",
     _refusal(lambda answer: setattr(answer, "api_keys", []))),
    ("the refusal has another error", "api-versions.next-version",
     _refusal(lambda answer: setattr(answer, "error_code", 42))),
    ("version 0 names fewer APIs", "api-versions.same-in-all-versions",
     Changed(_KEY, _keys(lambda keys: keys[1:]), range(1))),
    ("connections differ", "api-versions.same-on-all-connections", DifferentEachTime()),
    ("ApiVersions begins at version 1", "api-versions.names-itself", Changed(_KEY, _raise_key)),
    ("an API is named twice", "api-versions.each-api-once",
     Changed(_KEY, _keys(lambda keys: [*keys, keys[0]]))),
    ("a range is upside down", "api-versions.ranges-are-ranges", Changed(_KEY, _upside_down)),
    ("a negative throttle time", "api-versions.throttle-time",
     Changed(_KEY, _set(throttle_time_ms=-1), range(1, 9))),
    ("any software name is taken", "api-versions.software-name-empty",
     Changed(_KEY, _set(error_code=0), range(3, 9))),
    ("a header with tagged fields", "api-versions.header-without-tags",
     Bytes(_KEY, lambda data: data[:4] + b"\0" + data[4:])),
]  # fmt: skip
