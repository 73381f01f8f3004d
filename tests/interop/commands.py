"""Readers that are programs: kcat and Kafka's kafka-console-consumer. Their output is framed so
that keys and values may hold any bytes.
"""

from __future__ import annotations

import secrets
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tests.interop.reading import Reader, Record
from tests.waiting import until
from tools import java


class CommandReader(Reader):
    """A child process whose standard output is read as it comes; ended by SIGTERM."""

    _child: subprocess.Popen[bytes] | None = None

    def __init__(self, bootstrap: str, topic: str, group: str | None) -> None:
        super().__init__(bootstrap, topic, group)
        self._errors = tempfile.NamedTemporaryFile(prefix=f"{self.client}-", suffix=".err")  # noqa: SIM115

    def command(self) -> Sequence[str]:
        raise AssertionError("every reader has a command")

    def parse(self, output: IO[bytes]) -> None:
        """Read ``output`` to its end, appending to ``records``."""
        raise AssertionError("every reader has a parser")

    def read(self) -> None:
        self._child = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors
        )
        assert self._child.stdout is not None
        with self._child.stdout as output:
            self.parse(output)
        self._child.wait()

    def interrupt(self) -> None:
        child = until(lambda: self._child, f"{self.client} is started")
        assert child is not None
        if child.poll() is None:
            child.terminate()

    def output_end(self) -> str:
        return Path(self._errors.name).read_text(errors="replace")[-2000:]


class Kcat(CommandReader):
    """kcat of the distribution (librdkafka in C): every message is a line of numbers, then key and
    value by length.
    """

    client = "kcat"

    def command(self) -> Sequence[str]:
        common = ["kcat", "-b", self.bootstrap, "-q", "-u", "-f", r"%o %T %K %S\n%k%s\n"]
        if self.group is None:
            return [*common, "-C", "-t", self.topic, "-p", "0", "-o", "beginning"]
        return [*common, "-X", "auto.offset.reset=earliest", "-G", self.group, self.topic]

    def parse(self, output: IO[bytes]) -> None:
        while line := output.readline():
            offset, timestamp, key_size, value_size = (int(part) for part in line.split())
            key = output.read(key_size) if key_size >= 0 else None
            value = output.read(value_size) if value_size >= 0 else None
            assert output.read(1) == b"\n", (
                f"kcat's line after offset {offset} does not end where it said"
            )
            self.records.append(Record(offset, timestamp, key, value))


class ConsoleConsumer(CommandReader):
    """Kafka's kafka-console-consumer, with raw bytes between random separators."""

    client = "java"

    def __init__(self, bootstrap: str, topic: str, group: str | None) -> None:
        super().__init__(bootstrap, topic, group)
        self._between = f"<{secrets.token_hex(12)}>"
        self._end = f"<{secrets.token_hex(12)}>\n"
        self._null = f"<{secrets.token_hex(12)}>"

    def command(self) -> Sequence[str]:
        arguments = ["--bootstrap-server", self.bootstrap, "--topic", self.topic]
        if self.group is None:
            arguments += ["--partition", "0", "--offset", "earliest"]
        else:
            arguments += ["--group", self.group, "--from-beginning"]
        properties = {
            "print.timestamp": "true",
            "print.offset": "true",
            "print.key": "true",
            "key.separator": self._between,
            "line.separator": self._end,
            "null.literal": self._null,
        }
        for name, value in properties.items():
            arguments += ["--formatter-property", f"{name}={value}"]
        return java.command(java.CONSOLE_CONSUMER, arguments)

    def parse(self, output: Any) -> None:
        end, rest = self._end.encode(), b""
        while data := output.read1(1 << 20):
            *whole, rest = (rest + data).split(end)
            self.records.extend(self._record(line) for line in whole)
        assert not rest, f"kafka-console-consumer ended inside a record: {rest!r}"

    def _record(self, line: bytes) -> Record:
        timestamp, offset, key, value = line.split(self._between.encode())
        null = self._null.encode()
        return Record(
            int(offset.removeprefix(b"Offset:")),
            int(timestamp.partition(b":")[2]),
            None if key == null else key,
            None if value == null else value,
        )
