"""Makes the frames of a run: the same random numbers make frame N of a seed and listener each time.

Frames of two runs differ only in the ids of topics, members and tokens that the cluster assigned.
The quorum follows some requests because their sender has CLUSTER_ACTION: a vote in a later epoch, a
new leader, and the end of the leader's epoch. These are left out.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.handlers.context import Handler
from gateway.security.principal import Principal, encode_principal
from kwire.errors import DecodeError, EncodeError, UnsupportedVersion
from kwire.header import decode_request_header, encode_request_header
from kwire.protocol import ApiKey
from kwire.registry import request_type
from tools.fuzz_server.values import Values

if TYPE_CHECKING:
    from kwire import Message
    from tools.fuzz_server.values import Known

_SIZE: Final = struct.Struct(">i")
#: Kinds of frames and how many of 1,000 are of each. ``valid`` ones follow the protocol.
KINDS: Final[Mapping[str, int]] = {
    "valid": 540,
    "many elements": 1,
    "bytes changed": 250,
    "length changed": 60,
    "body cut": 40,
    "bytes behind": 20,
    "version swapped": 40,
    "header changed": 25,
    "garbage": 4,
    "frame size": 5,
    "unfinished": 15,
}
_EDGES: Final = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
_LENGTHS: Final = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\0\0\x75\x31",
    b"\x7f\xff",
    b"\xff\xff",
    b"\x80\0",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\xff\xff\x03",
    b"\x80\x80\x80\x80\x80\x80",
    b"\0",
    b"\0\0\0\0",
)
#: An Envelope has every other request inside: it comes more often.
_TURNS: Final[Mapping[int, int]] = {ApiKey.ENVELOPE: 10}
_SIZES: Final = (0, 1, 7, -1, -(2**31), 2**31 - 1, 200 * 1024 * 1024)
_EPOCH_FIELDS: Final[Mapping[int, str]] = {
    ApiKey.VOTE: "replica_epoch",
    ApiKey.BEGIN_QUORUM_EPOCH: "leader_epoch",
    ApiKey.END_QUORUM_EPOCH: "leader_epoch",
}


class Frame(NamedTuple):
    """``data`` is sent as it is, size bytes included; ``number`` is the correlation id in it."""

    number: int
    api_key: int
    version: int
    kind: str
    data: bytes

    @property
    def breaks_connection(self) -> bool:
        """True if the server should close the connection, or wait for more bytes of it."""
        return self.kind not in ("valid", "many elements")


class FrameSource:
    """Makes frames for a listener that serves ``table``."""

    def __init__(
        self, seed: int, listener: str, table: Mapping[int, Handler], known: Known
    ) -> None:
        self._seed, self._table, self._known = f"{seed}:{listener}", table, known
        self._apis = [
            (handler, version)
            for handler in table.values()
            for version in versions_of(handler)
            for _ in range(_TURNS.get(handler.api_key, 1))
        ]
        self._kinds, self._weights = list(KINDS), list(KINDS.values())

    def make(self, number: int) -> Frame:
        """Return frame ``number``: the APIs and versions follow each other in an order that the
        seed gives.
        """
        rng = random.Random(f"{self._seed}:{number}")
        handler, version = self._apis[(number + number // len(self._apis)) % len(self._apis)]
        kind = rng.choices(self._kinds, self._weights)[0]
        while True:
            frame = self._frame(rng, number, handler, version, kind)
            if not _deposes_leader(frame, self._known):
                return frame

    def valid(self, handler: Handler, version: int, number: int) -> Frame:
        """Return frame ``number``: a request that follows the protocol."""
        rng = random.Random(f"{self._seed}:{handler.api_key}:{version}:{number}")
        while True:
            frame = self._frame(rng, number, handler, version, "valid")
            if not _deposes_leader(frame, self._known):
                return frame

    def _frame(
        self, rng: random.Random, number: int, handler: Handler, version: int, kind: str
    ) -> Frame:
        if kind == "garbage":
            data = rng.randbytes(rng.choice((8, 20, 300)))
            return Frame(number, -1, -1, kind, _SIZE.pack(len(data)) + data)
        body = self._body(rng, handler, version, kind == "many elements")
        named = version
        if kind == "version swapped":
            named = rng.choice([*handler.versions, handler.versions[-1] + 1, -1, 32767])
        try:
            head = encode_request_header(handler.api_key, named, number, f"fuzz-{number}")
        except EncodeError:
            head = b"\0\0"
        if kind == "header changed":
            head = _changed(rng, head)
        whole = head + _spoiled(rng, body, kind)
        size = len(whole)
        if kind == "frame size":
            size = rng.choice(_SIZES)
        elif kind == "unfinished":
            whole = whole[: rng.randrange(len(whole))]
        return Frame(number, handler.api_key, named, kind, _SIZE.pack(size) + whole)

    def _body(self, rng: random.Random, handler: Handler, version: int, many: bool) -> bytes:
        cls = handler.request_type(version)
        while True:
            values = Values(rng, self._known, rng.choice((0.0, 0.0, 0.02, 0.3)))
            message = values.message(cls, version)
            if handler.api_key == ApiKey.ENVELOPE and rng.random() < 0.9:
                self._fill_envelope(rng, message)
            if many:
                _multiply(rng, message)
            try:
                return bytes(message.encode(version))
            except EncodeError:  # a null, or a combination of fields, that the version cannot write
                continue

    def _fill_envelope(self, rng: random.Random, message: Any) -> None:
        handler = rng.choice(
            [one for one in self._table.values() if ApiKey(one.api_key).forwardable]
        )
        version = rng.choice(list(handler.versions))
        inner = encode_request_header(handler.api_key, version, 1, "enveloped") + self._body(
            rng, handler, version, False
        )
        if rng.random() < 0.2:
            inner = _changed(rng, inner)
        name = rng.choice(
            ("User:admin", "User:outsider", "User:ANONYMOUS", "x:y", ":", "User:" + "x" * 2000)
        )
        message.request_data = inner
        message.request_principal = encode_principal(Principal(name, rng.random() < 0.2))
        message.client_host_address = rng.choice((b"\x7f\0\0\1", bytes(15) + b"\1"))


def versions_of(handler: Handler) -> Sequence[int]:
    return sorted({*handler.versions, *handler.old_requests})


def _spoiled(rng: random.Random, body: bytes, kind: str) -> bytes:
    if kind == "bytes changed":
        return _changed(rng, body)
    if kind == "length changed" and body:
        found, at = rng.choice(_LENGTHS), rng.randrange(len(body))
        return body[:at] + found + body[at + rng.choice((0, 1, len(found))) :]
    if kind == "body cut":
        return body[: rng.randrange(len(body) + 1)]
    if kind == "bytes behind":
        return body + rng.randbytes(rng.choice((1, 3, 100)))
    return body


def _changed(rng: random.Random, data: bytes) -> bytes:
    """Return ``data`` with one to four edits."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not made:
            break
        at = rng.randrange(len(made))
        match rng.randrange(5):
            case 0:
                made[at] = rng.choice(_EDGES)
            case 1:
                made[at : at + 4] = rng.randbytes(4)
            case 2:
                made[at:at] = rng.randbytes(3)
            case 3:
                del made[at : at + rng.choice((1, 4))]
            case _:
                made[at] ^= 1 << rng.randrange(8)
    return bytes(made)


def _multiply(rng: random.Random, message: Message) -> None:
    """Make the request's arrays long."""
    for f in message.fields():
        found = getattr(message, f.attr)
        if f.array and found:
            setattr(message, f.attr, found * (rng.choice((500, 3000, 9000)) // len(found)))


def _deposes_leader(frame: Frame, known: Known) -> bool:
    """True if the quorum would rightly follow this request to another epoch or leader."""
    data = frame.data[_SIZE.size :]
    attr = _EPOCH_FIELDS.get(int.from_bytes(data[:2], "big"))
    if attr is None:
        return False
    try:
        header, at = decode_request_header(data)
        cls = request_type(header.request_api_key)
        request: Any = cls.decode_from(data, header.request_api_version, at)[0]
    except (DecodeError, UnsupportedVersion):
        return False
    if request.cluster_id not in (None, known.cluster_id):
        return False
    partitions = [partition for topic in request.topics for partition in topic.partitions]
    epochs = [getattr(one, attr) for one in partitions if not getattr(one, "pre_vote", False)]
    # The end of an epoch is obeyed in the epoch itself, a vote and a new leader in later ones.
    return max(epochs, default=-1) > known.epoch - (
        header.request_api_key == ApiKey.END_QUORUM_EPOCH
    )
