"""Measures the time of a call and the cost of an import. It knows nothing of the calls."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

_ROUNDS = 15
_ROUND_S = 0.05

_IMPORT = """
import sys, time
def kib():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"): return int(line.split()[1])
    return 0
before, began = kib(), time.perf_counter()
{statement}
print(time.perf_counter() - began, kib() - before)
"""


def microseconds(calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the fastest round of each call, in µs for one call.

    Rounds of the calls alternate, so that a slow phase of the machine slows all of them. The
    garbage collector stays on, as part of the cost of an object, but does not visit older objects.
    """
    loops = {name: _loops(call) for name, call in calls.items()}
    best = dict.fromkeys(calls, float("inf"))
    gc.collect()
    gc.freeze()
    try:
        for _ in range(_ROUNDS):
            for name, call in calls.items():
                best[name] = min(best[name], _round(call, loops[name]) / loops[name])
    finally:
        gc.unfreeze()
    return {name: seconds * 1e6 for name, seconds in best.items()}


def _loops(call: Callable[[], object]) -> int:
    """Return how many calls fill a round."""
    loops = 1
    while (took := _round(call, loops)) < _ROUND_S / 4:
        loops *= 4
    return max(1, round(loops * _ROUND_S / took))


def _round(call: Callable[[], object], loops: int) -> float:
    began = time.perf_counter()
    for _ in range(loops):
        call()
    return time.perf_counter() - began


def import_cost(
    statement: str, *, path: Sequence[str] = (), rounds: int = 5
) -> tuple[float, float]:
    """Return (milliseconds, MiB of resident memory) that ``statement`` costs a new interpreter: the
    best of ``rounds``.

    The first round writes byte code, as for every user, whatever the environment says.
    """
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    program = f"import sys; sys.path[:0] = {list(path)!r}\n" + _IMPORT.format(statement=statement)
    results = []
    for _ in range(rounds):
        output = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env
        ).stdout
        seconds, kib = output.split()
        results.append((float(seconds) * 1000, int(kib) / 1024))
    return min(result[0] for result in results), min(result[1] for result in results)
