"""Output of a connection: order, turns, and release of reads, at a socket that takes some bytes."""

from __future__ import annotations

import random
import socket
import tempfile
from functools import partial
from typing import Any, cast

import pytest

from gateway.ports.services import FileRange, FileRecords, Read
from gateway.server.clients.output import FileTooShort, Output


class Sink:
    """A socket for bytes: takes at most ``room`` of each send, and nothing when ``full``."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room
        self.full = False
        self.sends: list[bytes] = []

    def send(self, data: Any, flags: int) -> int:
        if self.full:
            raise BlockingIOError
        self.sends.append(bytes(data[: self.room]))
        return len(self.sends[-1])

    def output(self) -> Output:
        return Output(cast(socket.socket, self))


def test_queued_responses_are_sent_together() -> None:
    sink = Sink()
    output = sink.output()
    for number in range(100):
        output.add([b"size", b"body %d" % number])
    assert output.unsent == sum(len(b"sizebody %d" % number) for number in range(100))
    assert output.send() is True
    assert len(sink.sends) == 1
    assert (bool(output), output.unsent, output.progress) == (False, 0, len(sink.sends[0]))


def test_bytes_that_the_socket_does_not_take_stay_in_order() -> None:
    sink = Sink(room=7)
    output = sink.output()
    for number in range(10):
        output.add([b"answer %d;" % number])
    while not output.send():
        pass
    assert b"".join(sink.sends) == b"".join(b"answer %d;" % number for number in range(10))
    assert output.unsent == 0


def test_full_socket_loses_no_bytes() -> None:
    sink = Sink()
    output = sink.output()
    output.add([b"abc"])
    sink.full = True
    assert output.send() is False
    assert (output.unsent, output.progress) == (3, 0)
    sink.full = False
    assert output.send() is True
    assert sink.sends == [b"abc"]


def test_send_returns_after_a_turn_though_the_socket_takes_more() -> None:
    sink = Sink()
    output = sink.output()
    for _ in range(100):
        output.add([bytes(200_000)])
    turns = 1
    while not output.send():
        turns += 1
    assert turns >= 8
    assert output.progress == 20_000_000


def test_discarded_read_is_released_once() -> None:
    released: list[int] = []
    output = Sink().output()
    for number in range(3):
        chunk = FileRange(0, 0, 1 << 20)
        output.add(
            [
                b"head",
                FileRecords(Read([chunk], 1 << 20, partial(released.append, number))),
            ]
        )
    output.discard()
    output.discard()
    assert released == [0, 1, 2]
    assert (bool(output), output.unsent) == (False, 0)


def test_read_of_a_short_file_is_released() -> None:
    released: list[bool] = []
    with tempfile.TemporaryFile() as file:
        chunk = FileRange(file.fileno(), 0, 10)
        with pytest.raises(FileTooShort):
            Sink().output().add([FileRecords(Read([chunk], 10, lambda: released.append(True)))])
    assert released == [True]


def test_read_with_a_view_of_memory_is_released_after_it_is_sent() -> None:
    released: list[bool] = []
    sink = Sink()
    output = sink.output()
    output.add(
        [
            b"head",
            FileRecords(Read([memoryview(b"lent")], 4, lambda: released.append(True))),
            b"tail",
        ]
    )
    assert released == []
    output.send()
    assert b"".join(sink.sends) == b"headlenttail"
    assert released == [True]


@pytest.mark.parametrize("seed", range(20))
def test_bytes_and_ranges_of_any_sizes_arrive_in_order(seed: int) -> None:
    rand = random.Random(seed)
    sender, receiver = socket.socketpair()
    with sender, receiver, tempfile.TemporaryFile() as file:
        content = rand.randbytes(400_000)
        file.write(content)
        file.flush()
        sender.setblocking(False)
        receiver.setblocking(False)
        output, expected, got = Output(sender), b"", b""
        for _ in range(30):
            size = rand.choice([1, 100, 16_384, 16_385, 100_000])
            at = rand.randrange(len(content) - size)
            read = Read([FileRange(file.fileno(), at, size), b"!"], size + 1, lambda: None)
            output.add([b"head", FileRecords(read), b"tail"])
            expected += b"head" + content[at : at + size] + b"!tail"
        done = False
        while not done or len(got) < len(expected):
            done = output.send()
            while True:
                try:
                    got += receiver.recv(1 << 20)
                except BlockingIOError:
                    break
        assert got == expected
