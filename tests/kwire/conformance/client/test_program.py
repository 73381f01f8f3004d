"""Programs that are graded: what they print is kept, and nothing of them is left."""

from __future__ import annotations

import os
import sys

import pytest

from kwire.conformance.catalog import find_rule
from kwire.conformance.client.opening import open_client
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.client.program import Command, Running
from kwire.conformance.client.session import ClientSession
from kwire.conformance.outcome import CheckEnd, Outcome
from kwire.conformance.runner import judged, run_rule
from kwire.conformance.session import CannotConnect
from kwire.protocol import ApiKey
from tests.waiting import until


def python(text: str) -> Running:
    return Running([sys.executable, "-S", "-c", text])


def test_output_and_status_are_kept() -> None:
    running = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    until(lambda: running.status is not None, "the program ends")
    running.stop()
    assert running.texts() == {"exit status": "3", "stdout": "out\n", "stderr": "err\n"}
    assert running.last_error() == "err"


def test_a_signal_is_a_negative_status() -> None:
    running = python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    until(lambda: running.status is not None, "the program ends")
    assert running.status == -9
    running.stop()


def test_children_end_with_the_program() -> None:
    running = python(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    until(lambda: running.output().endswith(b"\n"), "the id of the child")
    child = int(running.output())
    running.stop()
    until(lambda: not _lives(child), "the child ends")
    assert running.status is None


#: Leaves the session, and its parent, as a daemon does; it does not end by SIGTERM.
_DAEMON = (
    "import os, signal, subprocess, sys, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "    if os.fork() == 0:\n"
    "        print(os.getpid(), flush=True)\n"
    "        time.sleep(600)\n"
    "    os._exit(0)\n"
)


@pytest.mark.parametrize("then", ["time.sleep(600)", "sys.exit(0)"])
def test_child_that_has_left_session_and_parent_ends_with_the_program(then: str) -> None:
    other = python(_DAEMON + "time.sleep(600)")
    running = python(_DAEMON + then)
    until(lambda: running.output().endswith(b"\n"), "the id of the daemon")
    until(lambda: other.output().endswith(b"\n"), "the id of the other daemon")
    running.stop()
    until(lambda: not _lives(int(running.output())), "the daemon ends")
    assert _lives(int(other.output())), "it is of another start"
    other.stop()
    until(lambda: not _lives(int(other.output())), "the other daemon ends")


def test_program_gets_sigterm_once() -> None:
    running = python(
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('term', flush=True))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.1)"
    )
    until(lambda: running.output() == b"ready\n", "the handler is there")
    running.stop()
    assert running.output() == b"ready\nterm\n"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_that_ignores_sigterm_is_killed() -> None:
    running = python(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(600)"
    )
    until(lambda: running.output().endswith(b"\n"), "the program ignores SIGTERM")
    running.stop()  # it waits for the end
    assert not _lives(int(running.output()))


def test_a_file_that_is_no_program_cannot_be_started() -> None:
    with pytest.raises(CheckEnd, match="the program cannot be started"):
        Running([__file__])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["true"], "the command has no {bootstrap}"),
        (["no-such-program", "{bootstrap}"], "there is no program no-such-program"),
        (["true", "{bootstrap}"], "the program neither fetches nor produces, with exit status 0"),
    ],
)
def test_a_program_that_cannot_be_graded_says_why(words: list[str], said: str) -> None:
    with pytest.raises(CannotConnect, match=said.replace("{", r"\{")):
        open_client(Command(words), 10, expects_records=False)


@pytest.mark.parametrize(
    ("fault", "outcome"), [("none", Outcome.PASS), ("stays-in-group", Outcome.ADVICE)]
)
def test_a_program_is_graded(fault: str, outcome: Outcome) -> None:
    module = "tests.kwire.conformance.client.small"
    command = Command([sys.executable, "-m", module, "member", fault, "{bootstrap}", "{topic}"])
    used = {int(api): (0, 7) for api in (ApiKey.FETCH, ApiKey.JOIN_GROUP)}
    rule = find_rule("client-group.leaves")
    assert rule is not None
    result = judged(run_rule(ClientSession(command, 30, ClientProbe, True, used), rule), {})
    assert result.outcome is outcome, result.sentence
