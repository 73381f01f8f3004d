"""Runs a measurement in a Python process of its own, such as a driver of Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def measured_by(
    module: str, *arguments: str, timeout_s: float, python: str = sys.executable, **environ: str
) -> dict[str, Any]:
    """Run ``module`` with ``python``, for at most ``timeout_s``, and with ``environ`` beside this
    process's environment; return the JSON in the last line that it prints. Raises RuntimeError.
    """
    done = subprocess.run(
        [python, "-m", module, *arguments],
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
