"""Runs Kafka's command line tools in virtual machines that are kept, so that a tool takes tenths of
a second instead of seconds.

:func:`run` returns the output and exit status of the tool. ``ToolRunner.java`` runs it at the other
end of a pipe. After a tool that leaves threads running, or takes too long, the virtual machine is
ended, and the next call starts another one. Consumers run in processes of their own, because they
end in shutdown hooks; so do servers, see ``tools.java.command``.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

from kwire.jars.maven import cache_dir
from tools import java
from tools.process import PATIENCE_S

_PROGRAM: Final = Path(__file__).with_name("ToolRunner.java")
#: Tools ask for little; a heap of the default size would grow with each of them.
_HEAP: Final = "-Xmx256m"
_CONSUMERS: Final = frozenset(
    {java.CONSOLE_CONSUMER, java.CONSUMER_PERFORMANCE, java.VERIFIABLE_CONSUMER}
)
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">H")


def compiled(program: Path, class_path: Sequence[Path] = ()) -> Path:
    """A jar with the classes of the source file ``program``, which uses those of ``class_path``;
    made if there is none yet. Raises JavaError.

    Java can run the source itself, but compiles it in every virtual machine then.
    """
    compiler = Path(java.java()).resolve().with_name("javac")
    if not compiler.exists():
        raise java.JavaError(f"there is no {compiler}: Kafka's tools need a JDK")
    jars = ":".join(map(str, class_path))
    names = repr((str(compiler), compiler.stat().st_mtime_ns, program.read_bytes(), jars))
    target = cache_dir() / "classes" / f"{hashlib.sha256(names.encode()).hexdigest()[:16]}.jar"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            command = [str(compiler), "-cp", jars, "-d", f"{scratch}/classes", str(program)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise java.JavaError(f"{' '.join(command)}:\n{done.stderr[-4000:]}")
            made = shutil.make_archive(f"{scratch}/made", "zip", f"{scratch}/classes")
            Path(made).replace(target)  # whole, whichever process is the last
    return target


class _Machine:
    """One virtual machine and the pipe to it; one tool at a time."""

    def __init__(self, version: str, log_level: str) -> None:
        command = java.command(
            _PROGRAM.stem,
            version=version,
            options=(*java.QUICK_START, _HEAP),
            log_level=log_level,
            more_jars=[compiled(_PROGRAM)],
        )
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def run(self, words: Sequence[str]) -> tuple[int, str, str, bool]:
        """Return exit status, standard output, standard error, and whether the machine can run
        another tool. Raises EOFError and OSError when the virtual machine ends first.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        request = [_INT.pack(len(words))]
        for word in words:
            data = word.encode()
            request += [_SHORT.pack(len(data)), data]
        self.process.stdin.write(b"".join(request))
        self.process.stdin.flush()
        output = self.process.stdout
        [status] = _INT.unpack(_exactly(output, _INT.size))
        texts = [_exactly(output, *_INT.unpack(_exactly(output, _INT.size))) for _ in range(2)]
        out, errors = (text.decode(errors="replace") for text in texts)
        [stays] = _INT.unpack(_exactly(output, _INT.size))
        return status, out, errors, stays == 1

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


_idle: dict[tuple[str, str], list[_Machine]] = {}
_lock = threading.Lock()


def run(
    main_class: str,
    arguments: Sequence[str] = (),
    *,
    version: str = java.KAFKA_VERSION,
    timeout_s: float = PATIENCE_S,
    log_level: str = "warn",
) -> subprocess.CompletedProcess[str]:
    """Run the tool to its end. Raises JavaError when it takes longer than ``timeout_s``, or when
    its virtual machine cannot be started or ends.
    """
    if main_class in _CONSUMERS:
        return run_alone(
            main_class, arguments, version=version, timeout_s=timeout_s, log_level=log_level
        )
    key = (java.tool_version(main_class, version), log_level)
    with _lock:
        machines = _idle.setdefault(key, [])
        machine = machines.pop() if machines else None
    machine = machine or _Machine(*key)
    late = threading.Event()

    def give_up() -> None:
        late.set()
        machine.process.kill()

    timer = threading.Timer(timeout_s, give_up)
    timer.start()
    try:
        status, output, errors, stays = machine.run([main_class, *arguments])
    except (EOFError, OSError) as error:
        machine.end()
        what = f"{main_class} {' '.join(arguments)}"
        if late.is_set():
            raise java.JavaError(f"{what} gave no answer in {timeout_s:.0f} s") from error
        raise java.JavaError(f"{what}: its virtual machine ended: {error}") from error
    except BaseException:
        machine.end()
        raise
    finally:
        timer.cancel()
    if stays:
        with _lock:
            _idle[key].append(machine)
    else:
        machine.end()
    return subprocess.CompletedProcess([main_class, *arguments], status, output, errors)


def run_alone(
    main_class: str,
    arguments: Sequence[str],
    *,
    version: str = java.KAFKA_VERSION,
    timeout_s: float = PATIENCE_S,
    log_level: str = "warn",
    options: Sequence[str] = java.QUICK_START,
) -> subprocess.CompletedProcess[str]:
    """Do as :func:`run`, in a virtual machine of the tool's own, which has ``options``."""
    command = java.command(
        main_class, arguments, version=version, log_level=log_level, options=options
    )
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise java.JavaError(
            f"{main_class} {' '.join(arguments)} gave no answer in {timeout_s:.0f} s"
        ) from error


def run_tool(
    main_class: str,
    arguments: Sequence[str] = (),
    *,
    version: str = java.KAFKA_VERSION,
    timeout_s: float = PATIENCE_S,
) -> str:
    """Run a tool to its end, and return its standard output. Raises JavaError when it fails or
    takes longer than ``timeout_s``.
    """
    done = run(main_class, arguments, version=version, timeout_s=timeout_s)
    if done.returncode != 0:
        raise java.JavaError(
            f"{main_class} {' '.join(arguments)} ended with {done.returncode}:\n"
            f"{done.stdout}{done.stderr[-4000:]}"
        )
    return done.stdout


def retried(run: Callable[[], str], timeout_s: float = 30) -> str:
    """Run a tool until it succeeds, and return its standard output. Raises the last JavaError after
    ``timeout_s``.

    A controller that has just become active, or has not read its log yet, refuses an admin client
    for a moment: voters report their features within seconds of an election, not at once.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return run()
        except java.JavaError:
            if time.monotonic() > deadline:
                raise


def _exactly(source: IO[bytes], size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError(f"{len(data)} bytes instead of {size}")
    return data


@atexit.register
def _end_all() -> None:
    with _lock:
        machines = [machine for idle in _idle.values() for machine in idle]
        _idle.clear()
    for machine in machines:
        machine.end()
