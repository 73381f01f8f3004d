"""Sends the frames on several connections at once, each with some frames in flight.

A connection sends a batch and reads its responses in order. When the server closes the connection,
or does not answer a frame for ``PATIENCE_S``, the later frames are sent on a new connection, so
that every frame reaches the server.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.ports.answer_errors import errors_of
from kwire.errors import DecodeError, UnknownApi, UnsupportedVersion
from kwire.frame import frame as framed
from kwire.header import decode_response_header, encode_request_header, peek
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.protocol import ApiKey, ErrorCode, error_name
from kwire.registry import response_type

if TYPE_CHECKING:
    from tools.fuzz_server.frames import Frame
    from tools.fuzz_server.values import Known

#: How long a connection waits for an answer; long polls and joining members wait longer, s.
PATIENCE_S: Final = 0.2
#: Frames on their way at once on one connection.
PIPELINED: Final = 12
#: A server that does not accept a connection, or take what is sent, for so long hangs, s.
_HANGS_S: Final = 20.0
_SIZE: Final = struct.Struct(">i")
_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


@dataclass
class Seen:
    """Counts of frames and answers. ``failures``: answers that break the protocol."""

    frames: Counter[str] = field(default_factory=Counter)  #: by kind
    #: By kind and ``answered``, ``closed`` or ``no answer``.
    fates: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Answers by their most frequent error code.
    errors: Counter[str] = field(default_factory=Counter)
    #: API keys and versions with an answer to a valid frame.
    answered: set[tuple[int, int]] = field(default_factory=set)
    connections: int = 0
    failures: list[str] = field(default_factory=list)

    @classmethod
    def together(cls, all_seen: Sequence[Seen]) -> Seen:
        """Return the sum of several counts."""
        made = cls()
        for seen in all_seen:
            made.frames += seen.frames
            made.fates += seen.fates
            made.errors += seen.errors
            made.answered |= seen.answered
            made.connections += seen.connections
            made.failures += seen.failures
        return made


@dataclass(frozen=True)
class Login:
    """A user of PLAIN; the connection does not authenticate if ``name`` is None."""

    name: str | None = None
    password: str = ""


class Attack:
    """Sends ``frames`` to ``port`` of 127.0.0.1; its connections use the ``logins`` in turn."""

    def __init__(
        self,
        port: int,
        frames: Iterator[Frame],
        known: Known,
        logins: Sequence[Login] = (Login(),),
        keep: int = 0,
    ) -> None:
        self.seen = Seen()
        #: The latest frames of each connection by its local port, which log lines name.
        self.latest: dict[int, deque[Frame]] = {}
        self._port, self._frames, self._known = port, frames, known
        self._logins = itertools.cycle(logins)
        self._keep = keep or 2 * PIPELINED

    async def run(self, connections: int) -> None:
        """Send all frames. Raises trio.TooSlowError when the server does not accept connections."""
        async with trio.open_nursery() as nursery:
            for _ in range(connections):
                nursery.start_soon(self._connection)

    async def _connection(self) -> None:
        waiting: list[Frame] = []
        while waiting := waiting or self._batch():
            stream = await self._connect()
            try:
                while waiting := waiting or self._batch():
                    left = await self._exchange_batch(stream, waiting)
                    if left is not None:
                        waiting = waiting[left:]
                        break
                    waiting = []
            finally:
                with trio.CancelScope(shield=True):
                    await trio.aclose_forcefully(stream.stream)

    def _batch(self) -> list[Frame]:
        """The next frames, up to one that may end the connection."""
        found: list[Frame] = []
        for frame in self._frames:
            found.append(frame)
            if frame.breaks_connection or len(found) == PIPELINED:
                break
        return found

    async def _connect(self) -> FrameStream:
        with trio.fail_after(_HANGS_S):
            while True:
                login = next(self._logins)
                stream = FrameStream(await trio.open_tcp_stream("127.0.0.1", self._port))
                self.seen.connections += 1
                self.latest[stream.local_port] = deque(maxlen=self._keep)
                if login.name is None or await _log_in(stream, login):
                    return stream
                await trio.aclose_forcefully(stream.stream)

    async def _exchange_batch(self, stream: FrameStream, batch: list[Frame]) -> int | None:
        """Send ``batch`` and read its answers.

        Returns None, or how many frames were answered or given up when the connection ended.
        """
        seen = self.seen
        self.latest[stream.local_port].extend(batch)
        done = 0
        with trio.move_on_after(_HANGS_S) as patience:
            # After a reset, answers to earlier frames can still be read.
            with contextlib.suppress(trio.BrokenResourceError):
                await stream.stream.send_all(b"".join(frame.data for frame in batch))
            if batch[-1].kind == "unfinished":
                with contextlib.suppress(trio.BrokenResourceError):
                    await stream.stream.send_eof()
            for frame in batch:
                patience.deadline = trio.current_time() + PATIENCE_S
                answer = await stream.frame()
                seen.frames[frame.kind] += 1
                done += 1
                if answer is None:
                    seen.fates[frame.kind, "closed"] += 1
                    return done
                seen.fates[frame.kind, "answered"] += 1
                self._read(frame, answer)
        if patience.cancelled_caught:
            frame = batch[done]
            seen.frames[frame.kind] += 1
            seen.fates[frame.kind, "no answer"] += 1
            return done + 1
        return None

    def _read(self, frame: Frame, answer: bytes) -> None:
        if len(answer) < _SIZE.size or _SIZE.unpack_from(answer)[0] != frame.number:
            return  # its header was changed, or it is a token without one
        try:
            message = _decode(frame, answer)
        except (DecodeError, UnknownApi) as error:
            self.seen.failures.append(
                f"answer {answer[:200].hex()} does not decode ({error}) to frame {frame.data.hex()}"
            )
            return
        except UnsupportedVersion:
            return  # of a version that newer Kafka dropped
        errors = errors_of(message)
        self.seen.errors[error_name(errors.most_common(1)[0][0]) if errors else "NONE"] += 1
        if frame.kind == "valid":
            self.seen.answered.add((frame.api_key, frame.version))
        if (learn := _LEARN.get(type(message).NAME)) is not None:
            learn(message, self._known)


class FrameStream:
    """A socket that is read frame by frame."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.local_port: int = stream.socket.getsockname()[1]
        self._received = bytearray()

    async def frame(self) -> bytes | None:
        """The next frame without its size; None at the end."""
        while True:
            received = self._received
            if len(received) >= _SIZE.size:
                end = _SIZE.size + _SIZE.unpack_from(received)[0]
                if len(received) >= end:
                    found = bytes(received[_SIZE.size : end])
                    del received[:end]
                    return found
            try:
                piece = await self.stream.receive_some(256 * 1024)
            except trio.BrokenResourceError:  # a reset
                return None
            if not piece:
                return None
            received += piece


async def _log_in(stream: FrameStream, login: Login) -> bool:
    """Authenticate by PLAIN."""
    token = b"\0" + str(login.name).encode() + b"\0" + login.password.encode()
    handshake = encode_request_header(ApiKey.SASL_HANDSHAKE, 1, 0, None) + SaslHandshakeRequest(
        mechanism="PLAIN"
    ).encode(1)
    authenticate = encode_request_header(
        ApiKey.SASL_AUTHENTICATE, 1, 0, None
    ) + SaslAuthenticateRequest(auth_bytes=token).encode(1)
    await stream.stream.send_all(framed(handshake) + framed(authenticate))
    await stream.frame()
    answer = await stream.frame()
    return answer is not None and answer[4:6] == b"\0\0"


def _decode(frame: Frame, answer: bytes) -> Any:
    # As the server read them: the header may have been changed.
    api_key, version, _ = peek(frame.data[_SIZE.size :])
    if api_key == ApiKey.API_VERSIONS and answer[4:6] == _UNSUPPORTED_VERSION:
        version = 0  # in which every client can read it (KIP-511)
    _, at = decode_response_header(api_key, version, answer)
    return response_type(api_key).decode(answer[at:], version)


def _learn_members(answer: Any, known: Known) -> None:
    if answer.member_id:
        known.member_ids.append(answer.member_id)


def _learn_topics(answer: Any, known: Known) -> None:
    known.topic_ids.extend(topic.topic_id for topic in answer.topics[:8] if any(topic.topic_id))


def _learn_token(answer: Any, known: Known) -> None:
    if answer.hmac:
        known.hmacs.append(bytes(answer.hmac))


def _learn_broker_epoch(answer: Any, known: Known) -> None:
    if answer.broker_epoch >= 0:
        known.broker_epochs.append(answer.broker_epoch)


_LEARN: Final[dict[str, Callable[[Any, Known], None]]] = {
    "JoinGroupResponse": _learn_members,
    "MetadataResponse": _learn_topics,
    "CreateTopicsResponse": _learn_topics,
    "CreateDelegationTokenResponse": _learn_token,
    "BrokerRegistrationResponse": _learn_broker_epoch,
}
