"""A TLS connection that never waits: what one call reads and sends."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import socket
import ssl
import struct
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.server.clients.secure_socket import RECEIVED_MAX, REPLIES_MAX, SecureSocket
from tests.key_updates import KeyUpdates
from tools.kafka_security import Authority

IDENTITY = Authority().issue("node")


def server_context(file: Path) -> ssl.SSLContext:
    file.write_text(IDENTITY.pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


class Pair:
    """A server's side, and a client that writes raw records of TLS 1.3."""

    def __init__(self, directory: Path) -> None:
        self.client, accepted = socket.socketpair()
        for one in (self.client, accepted):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            one.setblocking(False)
        self.accepted = accepted
        self.server = SecureSocket(accepted, server_context(directory / "node.pem"))
        self.updates = KeyUpdates(self.client, directory / "secrets")
        while not self.updates.shake_hands():
            self.server.shake_hands()
        assert self.server.shake_hands() is None

    def waiting(self) -> int:
        """Bytes of the client that the server has not taken from its socket."""
        (size,) = struct.unpack("i", fcntl.ioctl(self.accepted, termios.FIONREAD, bytes(4)))
        return int(size)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.server.close()
    made.client.close()


def test_key_updates_are_decrypted_in_small_pieces(pair: Pair) -> None:
    """OpenSSL takes 24 us for each; in one call it took all that came."""
    sent = pair.updates.records(2_000) + pair.updates.data(b"hello")
    pair.client.sendall(sent)
    calls = 0
    while True:
        before = pair.waiting()
        try:
            data = pair.server.recv(1 << 16)
        except BlockingIOError:
            data = None
        assert before - pair.waiting() <= RECEIVED_MAX
        calls += 1
        if data is not None:
            break
    assert data == b"hello"
    assert calls >= len(sent) // RECEIVED_MAX


def test_peer_that_reads_no_answers_to_its_key_updates_is_disconnected(pair: Pair) -> None:
    answers = 0
    with pytest.raises(ConnectionError, match="key updates"):
        for _ in range(10_000):
            pair.client.sendall(pair.updates.records(100, wants_answer=True))
            while pair.waiting():
                with pytest.raises(BlockingIOError):
                    pair.server.recv(1 << 16)
            answers += 100
    assert answers * 27 > REPLIES_MAX


def test_long_output_arrives_whole_at_a_client_that_reads_slowly(pair: Pair) -> None:
    expected = bytes(range(256)) * 8192
    left, got = memoryview(expected), b""
    while len(got) < len(expected):
        with contextlib.suppress(BlockingIOError):
            left = left[pair.server.send(left) :]
        got += pair.updates.read(10_000)
    assert got == expected
    assert not left


def test_records_of_one_byte_arrive_in_order(pair: Pair) -> None:
    pair.client.sendall(b"".join(pair.updates.data(b"%d" % digit) for digit in range(10)))
    assert b"".join(pair.server.recv(1 << 16) for _ in range(10)) == b"0123456789"
    with pytest.raises(BlockingIOError):
        pair.server.recv(1 << 16)


def test_end_of_the_stream_is_no_data(pair: Pair) -> None:
    pair.client.shutdown(socket.SHUT_WR)
    assert pair.server.recv(1 << 16) == b""


@pytest.mark.parametrize("has_ticket", [False, True])
def test_session_of_tls_1_2_ends_with_its_connection(tmp_path: Path, has_ticket: bool) -> None:
    """OpenSSL kept 20,480 sessions, with up to 0.36 MiB of certificates of their clients each."""
    context = server_context(tmp_path / "node.pem")
    asking = ssl.create_default_context()
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    asking.maximum_version = ssl.TLSVersion.TLSv1_2
    if not has_ticket:
        asking.options |= ssl.OP_NO_TICKET
    sock, accepted = socket.socketpair()
    for one in (sock, accepted):
        one.setblocking(False)
    client = asking.wrap_socket(sock, do_handshake_on_connect=False)
    server = SecureSocket(accepted, context)
    is_done = False
    while not is_done:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
            is_done = True
        server.shake_hands()
    assert context.session_stats()["number"] == (not has_ticket)
    server.close()
    del server
    gc.collect()
    assert context.session_stats()["number"] == 0
    assert client.recv(1) == b""
    client.close()
