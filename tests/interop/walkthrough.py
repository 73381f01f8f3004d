"""Follows a page: writes the files that it shows, and runs its commands in their order, as a reader
does in an empty directory.

A properties block whose first line is ``# NAME`` is the file NAME. ``kwire serve`` stays running.
Only addresses are replaced, by ports that the system picked. Kafka's tools run in a virtual machine
that started elsewhere, so they get absolute paths.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.documented import Block, commands
from tests.interop.admin_commands import Command
from tests.waiting import PATIENCE_S
from tools import java_tools
from tools.gateway_process import ready_line
from tools.java_tools import retried
from tools.process import Process

_NAMED: Final = re.compile(r"# ([\w.-]+\.properties)\n")
_FILE_OPTIONS: Final = ("--command-config", "--config", "-c")


class Walk:
    """One reader in ``directory``. ``kwire`` is the program; ``replaced`` maps texts of the page to
    those of this machine; ``environment`` is that of kwire.
    """

    def __init__(
        self,
        directory: Path,
        kwire: Path,
        replaced: Mapping[str, str],
        environment: Mapping[str, str],
    ) -> None:
        self.directory = directory
        self.servers: list[Process] = []
        self.said: dict[str, str] = {}  #: output by command line, as the page has it
        self._kwire = kwire
        self._replaced = replaced
        self._environment = {"HOME": str(directory), "PATH": "/usr/bin:/bin", **environment}

    def follow(self, blocks: Sequence[Block], *, wait: bool = True) -> None:
        """Do what the blocks say, and ``wait`` until their servers are ready. Raises AssertionError
        for a command that fails.
        """
        for block in blocks:
            if block.language == "properties" and (named := _NAMED.match(block.text)):
                text = re.sub(r"location=(?!/)", f"location={self.directory}/", block.text)
                (self.directory / named[1]).write_text(self._mine(text))
            for words in commands(block):
                self.said[" ".join(words)] = self.run([self._mine(word) for word in words])
            # The servers of one block need each other.
            for server in self.servers if wait else ():
                self.ready(server)

    def run(self, words: list[str]) -> str:
        """Run a command, and return its output; of a server the ready line."""
        if words[0] == "pip":  # the wheel is installed
            return ""
        if words[0].startswith("kafka-"):
            return self._kafka(words)
        if words[:2] == ["kwire", "serve"] and "--check-config" not in words:
            return self._serve(words)
        program = [str(self._kwire)] if words[0] == "kwire" else words[:1]
        if words[:2] == ["kwire", "conform"]:  # a busy machine is no fault of the server
            words = [*words, "--timeout", str(int(PATIENCE_S))]
        done = subprocess.run(
            [*program, *words[1:]],
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=15 * PATIENCE_S,
            check=False,
        )
        # Of ``kwire diff`` 1 says that something changed.
        good = (0, 1) if words[:2] == ["kwire", "diff"] else (0,)
        assert done.returncode in good, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def ready(self, server: Process) -> dict[str, Any]:
        """The ready line of a server."""
        server.wait_until(lambda: ready_line(server) is not None, timeout_s=PATIENCE_S)
        line = ready_line(server)
        assert line is not None
        return line

    def stop(self) -> None:
        """End all servers."""
        for server in self.servers:
            server.stop()

    def _serve(self, words: list[str]) -> str:
        number = len(self.servers) + 1
        line = ["env", "-C", str(self.directory), str(self._kwire), *words[1:]]
        log = self.directory / f"server-{number}.out"
        self.servers.append(Process(f"server {number}", line, log, self._environment))
        return ""

    def _kafka(self, words: list[str]) -> str:
        tool = words[0].removeprefix("kafka-").removesuffix(".sh")
        arguments = [
            str(self.directory / word) if before in _FILE_OPTIONS else word
            for before, word in itertools.pairwise(words)
        ]
        # The three servers have started just before, and may not have a leader yet.
        return retried(lambda: java_tools.run_tool(Command(tool, ()).main_class, arguments))

    def _mine(self, text: str) -> str:
        for theirs, mine in self._replaced.items():
            text = text.replace(theirs, mine)
        return text
