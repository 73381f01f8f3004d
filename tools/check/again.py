"""Runs the tests that failed once more, alone, and names those that pass then.

A test beside many others can fail where the machine is too busy for it. That is a fault of the
test, so it is named for as long as it is not mended, but it does not block a change. A test that
fails twice fails the run, and so does a run that was broken off. This module starts pytest, and
reads the last line of its output and its list of failed tests; it judges nothing else.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

#: pytest's exit status when tests failed, and nothing else went wrong.
_TESTS_FAILED: Final = 1
#: After so many tests that failed twice the rest is not run again.
_FAILED_TWICE_MAX: Final = 5
_COUNT: Final = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed)\b")


def run(beside: Sequence[str], root: Path, *, selected: Sequence[str]) -> int:
    """Run pytest in ``root`` with the arguments ``selected``, which choose tests, and ``beside``,
    which run them beside each other; then again, without ``beside``, those that failed.

    Prints all output and closes with a line like pytest's. Returns the exit status.
    """
    with tempfile.TemporaryDirectory(prefix="kwire-failed-") as cache:
        options = ["-o", f"cache_dir={cache}", *selected]
        status, counts = _pytest([*beside, *options], root)
        failed = _last_failed(cache)
        if status != _TESTS_FAILED or not failed:
            return status
        print(f"\nrun again, alone: {len(failed)}", flush=True)
        once_more = ["--last-failed", "--last-failed-no-failures=none", *options]
        status, again = _pytest([*once_more, f"--maxfail={_FAILED_TWICE_MAX}"], root)
        passed = sorted(failed - _last_failed(cache))
    for name in passed:
        print(f"passed when run again alone: {name}, a fault of the test to be mended")
    print(_closing_line(counts, again, len(passed)), flush=True)
    return status


def _pytest(arguments: Sequence[str], root: Path) -> tuple[int, Counter[str]]:
    """Run pytest, print its output as it comes, and return its status and what its last line
    counts.
    """
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    command = [sys.executable, "-m", "pytest", *colour, *arguments]
    last = ""
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            print(line, end="", flush=True)
            last = line if _COUNT.search(line) else last
    plain = re.sub(r"\x1b\[[0-9;]*m", "", last)
    counts = {name.removesuffix("s"): int(number) for number, name in _COUNT.findall(plain)}
    return child.returncode, Counter(counts)


def _last_failed(cache: str) -> set[str]:
    path = Path(cache) / "v/cache/lastfailed"
    return set(json.loads(path.read_text())) if path.is_file() else set()


def _closing_line(first: Counter[str], again: Counter[str], passed_again: int) -> str:
    """The line with which pytest closes, had each test run as it did last."""
    total = Counter(first)
    del total["failed"], total["error"]
    total += again
    found = [f"{total[name]} {name}" for name in ("failed", "error", "passed") if total[name]]
    found += [f"{total[name]} {name}" for name in ("skipped", "xfailed", "xpassed") if total[name]]
    return f"==== {', '.join(found)} ({passed_again} of them when run again alone) ===="
