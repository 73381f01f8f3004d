"""Kills a node, or fails its disk, at exactly its n-th system call on a file, by strace: ``python
-m tools.syscall_sweep``.

For every position a new node is formatted, started under strace and written to until strace injects
the fault; then it is started again without strace, and must have everything that it acknowledged.
After a failed write or sync the process must have ended by itself. The result is a JSON file that
grows by one entry for each position: a run that was stopped continues there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tools.admin import AdminError
from tools.consistency_checker.checker import Minimum
from tools.consistency_checker.run import judge, under_load
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster, own_quorum
from tools.process import PATIENCE_S, ProcessError

#: The system calls of a node on its files.
CALLS = "pwrite64,fsync,fdatasync,rename,ftruncate,unlink"
#: Faults that strace injects into a call, by name.
FAULTS = {
    "kill": "signal=KILL",
    "EIO": "error=EIO",
    "ENOSPC": "error=ENOSPC",
    "delay": "delay_enter=300000",
}
#: Parts of the paths of files whose faults do not end the process.
_NOT_FATAL = ("/__cluster_metadata_audit~local-0/", "/state/")
#: Appends that are waited for; a start, an election and these are more calls than positions.
_APPENDS = 60


@dataclass(frozen=True)
class InjectedFault:
    """The result of one position: whether the fault was injected there, the exit status of the
    process (None: it continued), and the checker's violations.
    """

    position: int
    fault: str
    struck: bool
    status: int | None
    acknowledged: int
    violations: Sequence[str]

    def wrong(self) -> str:
        """The reason why the result is wrong; empty if it is right."""
        if self.violations:
            return f"{self.fault} at call {self.position}: {'; '.join(self.violations)}"
        if self.struck and self.fault != "delay" and self.status is None:
            return f"{self.fault} at call {self.position}: the process went on"
        if self.status is not None and (self.fault == "delay" or not self.struck):
            return (
                f"{self.fault} at call {self.position}: the process ended with {self.status}, and"
                " nothing had failed"
            )
        return ""


def available() -> str:
    """Return the reason why strace cannot be used; empty if it can."""
    if shutil.which("strace") is None:
        return "strace is not on the PATH (Debian package strace)"
    done = subprocess.run(
        ["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else f"strace may not trace here: {done.stderr.strip()}"


def strike(position: int, fault: str, scratch: Path) -> InjectedFault:
    """Run a quorum of one node in ``scratch`` with the fault at the ``position``-th call of a
    thread, start the node again, and check it.

    Raises ProcessError if it does not start again or does not answer.
    """
    trace = scratch / "strace.out"
    how = f"inject={CALLS}:{FAULTS[fault]}:when={position}"
    # -D: the node stays this process's child, and strace ends with it.
    before = [
        "strace",
        "-D",
        "-f",
        "-y",
        "-qq",
        "-o",
        str(trace),
        "-e",
        f"trace={CALLS}",
        "-e",
        how,
    ]
    with own_quorum(
        1, directory=scratch / "node", formatted=True, before=before, start=False
    ) as cluster:
        [node] = cluster.nodes
        cluster.start_node(node)
        with under_load(cluster, scratch / "journal") as run:
            status = _until_struck(cluster, run.writers.wait_for)
            # Before the kill below, which strace reports as it does its own.
            struck = trace.exists() and was_struck(trace.read_text())
            if status is None and struck and fault != "delay":
                # The fault struck behind the last append that was waited for.
                status = _ended(node)
            if status is None:
                cluster.kill_node(node)
            cluster.before = ()
            cluster.start_node(node)
            cluster.wait_for_node(node)
            run.writers.wait_for(3)
        result = judge(run, Minimum(acknowledged=3))
    told = [f"{one.rule}: {one.text}" for one in result.violations]
    return InjectedFault(position, fault, struck, status, result.facts["acknowledged"], told)


def was_struck(trace: str) -> bool:
    """Return whether strace's output (``-y``) has a fault that must end the process.

    strace counts the calls of each thread, so where a fault strikes depends on the threads. A node
    goes on when its audit log or a consumer group's offsets cannot be written.
    """
    began: dict[str, str] = {}
    for line in trace.splitlines():
        thread, _, call = line.partition(" ")
        if "<unfinished ...>" in call:
            began[thread] = call
        elif any(word in call for word in ("INJECTED", "DELAYED", "SIGKILL")):
            whole = began.pop(thread, "") + call if "resumed>" in call else call
            if not any(place in whole for place in _NOT_FATAL):
                return True
    return False


def _until_struck(cluster: OwnCluster, wait_for: Any) -> int | None:
    """Return the exit status of the node that ended; None for one that continued until enough was
    appended.
    """
    [node] = cluster.nodes
    process, deadline = node.running_process(), time.monotonic() + PATIENCE_S
    for _ in range(_APPENDS):
        try:
            wait_for(1, timeout_s=0.5)
        except AdminError:
            if not process.running():
                return process.stop()
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"the node neither ended nor answered for {PATIENCE_S:.0f} s:\n"
                    f"{process.output_end()}"
                ) from None
    return None if process.running() else process.stop()


def _ended(node: Node) -> int | None:
    """Return the exit status of a node that was struck; None if it continues."""
    process, deadline = node.running_process(), time.monotonic() + PATIENCE_S
    while process.running() and time.monotonic() < deadline:
        time.sleep(0.1)
    return None if process.running() else process.stop()


@click.command(
    epilog="Example: python -m tools.syscall_sweep --positions 200 --out syscall-sweep.json"
)
@click.option(
    "--positions",
    default=200,
    show_default=True,
    help="The fault strikes at each of the first so many calls.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    type=click.Choice(list(FAULTS)),
    help="Only these. [default: all]",
)
@click.option(
    "--together",
    default=4,
    show_default=True,
    help="Nodes at a time: they mostly wait for the disk.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("syscall-sweep.json"),
    show_default=True,
)
def main(positions: int, faults: tuple[str, ...], together: int, out: Path) -> None:
    """Inject every fault at every position. Exit with 1 if a record was lost, or a process
    continued after a failed write.
    """
    if trouble := available():
        raise click.ClickException(trouble)
    done = json.loads(out.read_text())["strikes"] if out.exists() else []
    known = {(one["position"], one["fault"]) for one in done}
    left = [
        (position, fault)
        for position in range(1, positions + 1)
        for fault in faults or FAULTS
        if (position, fault) not in known
    ]
    with ThreadPoolExecutor(together) as pool:
        for one in pool.map(lambda which: _strike(*which), left):
            done.append(one)
            out.write_text(json.dumps({**_total(done), "strikes": done}, indent=1) + "\n")
            if one["wrong"] or len(done) % 40 == 0:
                click.echo(f"{len(done)}: {json.dumps(_total(done))}")
    click.echo(json.dumps(_total(done)))
    sys.exit(1 if _total(done)["wrong"] else 0)


def _strike(position: int, fault: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kwire-strace-") as scratch:
        one = strike(position, fault, Path(scratch))
    return {
        "position": position,
        "fault": fault,
        "struck": one.struck,
        "status": one.status,
        "acknowledged": one.acknowledged,
        "wrong": one.wrong(),
    }


def _total(strikes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "positions": len({one["position"] for one in strikes}),
        "struck": sum(one["struck"] for one in strikes),
        "acknowledged": sum(one["acknowledged"] for one in strikes),
        "wrong": [one["wrong"] for one in strikes if one["wrong"]],
    }


if __name__ == "__main__":
    main()
