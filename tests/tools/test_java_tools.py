"""Kafka's tools in virtual machines that stay: outcomes, failures, deadlines, replacement."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import java, java_tools
from tools.java_tools import retried, run, run_tool

#: Speaks the protocol of ToolRunner.java; the first argument says what becomes of the tool.
_MACHINE = """
import struct, sys
def number():
    data = sys.stdin.buffer.read(4)
    return struct.unpack(">i", data)[0] if data else sys.exit()
def text():
    return sys.stdin.buffer.read(struct.unpack(">H", sys.stdin.buffer.read(2))[0]).decode()
count = 0
while True:
    words = [text() for _ in range(number())]
    count += 1
    end = words[1:2]
    if end == ["dies"]:
        sys.exit(1)
    if end == ["hangs"]:
        import time
        time.sleep(60)
    said = f"{count} {words}".encode(), b"no such topic"
    out = struct.pack(">i", int(end == ["fail"]))
    out += b"".join(struct.pack(">i", len(one)) + one for one in said)
    sys.stdout.buffer.write(out + struct.pack(">i", int(end != ["last"])))
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    program = tmp_path / "machine.py"
    program.write_text(_MACHINE)
    monkeypatch.setattr(
        java, "command", lambda *arguments, **options: [sys.executable, str(program)]
    )
    monkeypatch.setattr(java_tools, "compiled", lambda source: program)
    monkeypatch.setattr(java_tools, "_idle", {})
    yield
    for idle in java_tools._idle.values():
        for one in idle:
            one.end()


@pytest.mark.usefixtures("machine")
def test_tools_share_one_machine_and_each_gets_its_output() -> None:
    assert run_tool(java.TOPICS, ["--list"]) == f"1 {[java.TOPICS, '--list']}"
    done = run(java.TOPICS, ["\N{GREEK SMALL LETTER ALPHA}"])
    assert (done.returncode, done.stderr) == (0, "no such topic")
    assert done.stdout == f"2 {[java.TOPICS, chr(0x3B1)]}"


@pytest.mark.usefixtures("machine")
def test_a_tool_that_fails_raises_its_output_and_its_errors() -> None:
    with pytest.raises(java.JavaError, match=r"fail ended with 1:\n1 (.|\n)*no such topic"):
        run_tool(java.TOPICS, ["fail"])


@pytest.mark.usefixtures("machine")
def test_virtual_machine_is_replaced_when_it_dies_hangs_or_is_used_up() -> None:
    with pytest.raises(java.JavaError, match="its virtual machine ended"):
        run_tool(java.TOPICS, ["dies"])
    with pytest.raises(java.JavaError, match="gave no answer in 0 s"):
        run(java.TOPICS, ["hangs"], timeout_s=0.2)
    assert run_tool(java.TOPICS, ["last"]).startswith("1 ")
    assert run_tool(java.TOPICS, ["--list"]).startswith("1 ")
    assert run_tool(java.TOPICS, ["--list"]).startswith("2 ")


def test_retried_returns_the_first_success_and_raises_the_last_failure() -> None:
    outcomes: Iterator[java.JavaError | str] = iter([java.JavaError("not yet"), "done"])

    def tool() -> str:
        outcome = next(outcomes)
        if isinstance(outcome, java.JavaError):
            raise outcome
        return outcome

    assert retried(tool) == "done"

    def refused() -> str:
        raise java.JavaError("never")

    with pytest.raises(java.JavaError, match="never"):
        retried(refused, timeout_s=0)


@pytest.mark.interop
def test_kafkas_tools_exit_and_print_as_in_a_process_of_their_own() -> None:
    try:
        java.class_path()
    except java.JavaError as error:
        pytest.skip(f"Kafka's tools cannot run: {error}")
    for main, arguments in (
        (java.TOPICS, ["--version"]),
        (java.TOPICS, ["--list"]),
        ("kafka.admin.ConfigCommand", ["--no-such-option"]),
        (java.STORAGE, ["random-uuid", "too", "many"]),
        ("org.apache.kafka.tools.NoSuchTool", []),
    ):
        alone = java_tools.run_alone(main, arguments, log_level="off")
        shared = run(main, arguments, log_level="off")
        assert (shared.returncode, shared.stdout) == (alone.returncode, alone.stdout), main
