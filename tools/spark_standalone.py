"""Runs a standalone cluster of Spark with one worker, on this machine, and jobs of ``kwire spark
fleet`` on it, each part of which can be killed as a crash would.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.process import PATIENCE_S, Process, lasting_ports
from tools.spark_home import FEW_ROWS

_ROOT: Final = Path(__file__).resolve().parent.parent
_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
_PACKAGE: Final = "import os, pyspark; print(os.path.dirname(pyspark.__file__))"


class Job:
    """A driver: a Python process and its JVM."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def is_alive(self) -> bool:
        return self._process.running()

    def output_end(self) -> str:
        """Return the end of what the driver has printed."""
        return self._process.output_end()

    def kill(self) -> None:
        """Kill the JVM and its Python."""
        for pid in children(self._process.pid):
            _kill(pid)
        self._process.kill()


class Standalone:
    """A master and a worker of the PySpark of ``python``."""

    def __init__(self, python: str, scratch: Path, cores: int = 2) -> None:
        self._python, self._scratch, self._cores = python, scratch, cores
        command = [python, "-c", _PACKAGE]
        home = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        self._home = home
        self._ports = lasting_ports(2)
        self._started = 0
        self._jobs: list[Job] = []
        self._master: Process | None = None
        self._worker: Process | None = None

    def start(self) -> None:
        """Start the master and the worker. Raises ProcessError."""
        self._master = master = self._daemon("master.Master", "--port", str(self._ports[0]))
        master.wait_until(lambda: _says(master, "New state: ALIVE"), PATIENCE_S)
        self._start_worker()

    def stop(self) -> None:
        """End what was started."""
        for job in self._jobs:
            if job.is_alive():
                job.kill()
        for daemon in (self._worker, self._master):
            if daemon is not None:
                for pid in children(daemon.pid):
                    _kill(pid)
                daemon.stop()

    def job(self, arguments: Sequence[str]) -> Job:
        """Start ``kwire spark fleet`` with these arguments on the cluster."""
        settings = {
            **FEW_ROWS,
            "spark.master": f"spark://127.0.0.1:{self._ports[0]}",
            "spark.executor.memory": "768m",
            "spark.executor.extraJavaOptions": _JVM,
            "spark.cores.max": str(self._cores),
        }
        given = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
        command = [
            self._python,
            "-m",
            "gateway",
            "spark",
            "fleet",
            *arguments,
            *given,
            "-o",
            "json",
        ]
        job = Job(self._process("job", command))
        self._jobs.append(job)
        return job

    def executors(self) -> list[int]:
        """Return the ids of the processes that run tasks."""
        return [] if self._worker is None else list(children(self._worker.pid))

    def kill_executors(self) -> int:
        """Kill the executors; the worker starts others. Return how many there were."""
        found = self.executors()
        for pid in found:
            _kill(pid)
        return len(found)

    def kill_worker(self) -> None:
        """Kill the worker and start another one. Executors end when they lose their worker; one
        that goes on is killed, too.
        """
        executors = {pid: found for pid in self.executors() if (found := _command_of(pid))}
        if self._worker is not None:
            self._worker.kill()
        deadline = time.monotonic() + PATIENCE_S
        while left := [pid for pid, command in executors.items() if _command_of(pid) == command]:
            if time.monotonic() > deadline:
                for pid in left:
                    _kill(pid)
            time.sleep(0.05)
        self._start_worker()

    def _start_worker(self) -> None:
        master = f"spark://127.0.0.1:{self._ports[0]}"
        work = str(self._scratch / "work")
        sizes = ["--cores", str(self._cores), "--memory", "2g", "--work-dir", work]
        worker = self._daemon("worker.Worker", "--port", str(self._ports[1]), *sizes, master)
        self._worker = worker
        worker.wait_until(lambda: _says(worker, "Successfully registered"), PATIENCE_S)

    def _daemon(self, name: str, *arguments: str) -> Process:
        common = ["--host", "127.0.0.1", "--webui-port", "0"]
        program = [f"{self._home}/bin/spark-class", f"org.apache.spark.deploy.{name}"]
        return self._process(name, [*program, *common, *arguments])

    def _process(self, name: str, command: Sequence[str]) -> Process:
        self._started += 1
        environment = {
            "PYTHONPATH": str(_ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": _JVM,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        return Process(name, command, self._scratch / f"{name}-{self._started}", environment)


@contextlib.contextmanager
def standalone(python: str, scratch: Path) -> Iterator[Standalone]:
    """A cluster that ends with the block. Raises ProcessError."""
    cluster = Standalone(python, scratch)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def children(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started and that have not ended."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == pid and state != "Z":
                    yield int(entry.name)


def _command_of(pid: int) -> bytes | None:
    """Return the command line of a process; None if it has ended, waited for or not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes() or None
    return None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _says(process: Process, words: str) -> bool:
    return words in process.log.read_text(errors="replace")
