"""Runs a standalone Spark cluster of PySpark's own programs, with the commands of
``docs/spark-cluster.md``.

Every process is ended by its own id. Executors are processes of their worker, and find kwire in
the zip file that is shipped to them alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools import spark_home
from tools.process import lasting_ports

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "spark-cluster.md"
_READY_S: Final = 60.0
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"


def blocks() -> list[str]:
    """The commands of the page."""
    return re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def environment() -> dict[str, str]:
    """The environment of all programs: without the path of the checkout."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return {
        **kept,
        **spark_home.environment(),
        "PATH": path,
        "SPARK_DAEMON_JAVA_OPTS": spark_home.driver_options(),
        "SPARK_DAEMON_MEMORY": "256m",
    }


@dataclass
class Daemon:
    """A master, a worker, or a driver: a process with a group of its own."""

    command: Sequence[str]
    output: Path
    process: subprocess.Popen[bytes] | None = None
    path: str = ""

    def start(self) -> None:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**environment(), **({"PYTHONPATH": self.path} if self.path else {})},
                cwd=self.output.parent,
                start_new_session=True,
            )

    def wait_for(self, text: str) -> str:
        """The line of the newest output with ``text``."""
        deadline = time.monotonic() + _READY_S
        while True:
            said = self.output.read_text(errors="replace")
            found = [line for line in said.splitlines() if text in line]
            if found:
                return found[-1]
            ended = self.process is None or self.process.poll() is not None
            assert not ended and time.monotonic() < deadline, f"no {text!r}:\n{said[-5000:]}"
            time.sleep(0.05)

    def children(self) -> list[int]:
        """The ids of the processes that it has started, and that live."""
        assert self.process is not None
        return _children(self.process.pid)

    def kill(self, *, group: bool) -> None:
        """Kill the process, as a crash would; with ``group`` its children too."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@dataclass
class Standalone:
    """A running cluster; its master's address is ``url``."""

    directory: Path
    url: str = ""
    master: Daemon | None = None
    workers: list[Daemon] = field(default_factory=list)

    def executors(self) -> list[int]:
        """The ids of the executors that live."""
        return [pid for one in self.workers if one.process for pid in one.children()]

    def submit(
        self, script: Path, *arguments: str, conf: Mapping[str, str], pandas: bool = True
    ) -> Daemon:
        """A driver, started with the command of the page. Its own Python has pandas with
        ``pandas``; the processes that it starts, and those of the executors, never do.
        """
        line = blocks()[0].splitlines()[1].replace("spark://master.example:7077", self.url)
        command = _expanded(line)
        command = command[: command.index("spark_clusters.py")]
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        absent = str(self.directory / "absent")
        options += ["--conf", f"spark.executorEnv.PYTHONPATH={absent}"]
        # In place of an installed kwire, for the processes that plan a stream.
        path = [str(self.directory / "kwire.zip"), *([] if pandas else [absent])]
        driver = Daemon(
            [*command, *options, str(script), *arguments],
            self.directory / f"driver-{time.time()}",
            path=os.pathsep.join(path),
        )
        driver.start()
        return driver


def settings() -> dict[str, str]:
    """Configuration of a small driver, with executors that start soon."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": spark_home.driver_options(),
        "spark.executor.extraJavaOptions": spark_home.driver_options(),
        "spark.executor.memory": "600m",
        "spark.driver.memory": "600m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        **spark_home.FEW_ROWS,
        "spark.log.level": "WARN",
    }


@contextlib.contextmanager
def standalone(directory: Path, workers: int = 2) -> Iterator[Standalone]:
    """A master and its workers, and ``kwire.zip`` in ``directory``; killed at the end."""
    zipped, _, master, worker = blocks()
    subprocess.run(
        ["bash", "-ec", zipped.splitlines()[0]],
        cwd=directory,
        env={**environment(), "PYTHONPATH": str(_with_byte_code(directory / "package"))},
        check=True,
    )
    _hide_pandas(directory / "absent")
    [port] = lasting_ports(1)
    cluster = Standalone(directory, f"spark://127.0.0.1:{port}")
    try:
        line = master.replace("master.example", "127.0.0.1").replace("7077", str(port))
        cluster.master = Daemon(_expanded(line.replace("8080", "0")), directory / "master")
        cluster.master.start()
        cluster.master.wait_for("I have been elected leader")
        for n in range(workers):
            line = worker.replace("spark://master.example:7077", cluster.url)
            line = line.replace("/var/lib/spark", str(directory / f"work-{n}"))
            command = [*_expanded(line), "--host", "127.0.0.1", "--webui-port", "0"]
            one = Daemon(command, directory / f"worker-{n}")
            cluster.workers.append(one)
            one.start()
        for one in cluster.workers:
            one.wait_for("Successfully registered with master")
        yield cluster
    finally:
        for daemon in [*cluster.workers, *([cluster.master] if cluster.master else [])]:
            daemon.kill(group=True)


def _with_byte_code(into: Path) -> Path:
    """Copy kwire to ``into``, with its byte code where Python looks for it in a zip file: each of
    the many processes that import kwire would compile it otherwise.
    """
    shutil.copytree(ROOT / "kwire", into / "kwire", ignore=shutil.ignore_patterns("__pycache__"))
    # Not checked by time, which a zip file keeps in steps of two seconds.
    options = ("-q", "-b", "--invalidation-mode", "unchecked-hash")
    subprocess.run([sys.executable, "-m", "compileall", *options, str(into)], check=True)
    return into


def _hide_pandas(into: Path) -> None:
    """Make a directory that hides an installed pandas. The page does not ask for it on the
    machines of a cluster, and PyArrow imports it, where it is there, for 0.7 s of each process.
    """
    into.mkdir()
    (into / "pandas.py").write_text('raise ImportError("pandas is not on this machine")\n')


def _expanded(line: str) -> list[str]:
    return [os.path.expandvars(word) for word in _words(line)]


def _words(line: str) -> list[str]:
    return shlex.split(line.replace("$SPARK_HOME", environment()["SPARK_HOME"]))


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            command = (path.parent / "cmdline").read_bytes().decode(errors="replace")
            if int(fields[1]) == pid and _EXECUTOR in command:
                found.append(int(path.parent.name))
    return found
