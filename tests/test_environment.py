"""The tests give the same result in whatever environment they are started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: Tests of what is drawn on terminals, written for locales, and read from the environment.
SENSITIVE = (
    "tests/gateway/cli/test_state_progress.py",
    "tests/gateway/cli/test_apis.py",
    "tests/gateway/config/test_config.py",
)
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "a dumb terminal, keys of a server": {
        "TERM": "dumb",
        "KWIRE_LOG_DIR": "/nowhere",
        "KWIRE_NODE_ID": "x",
    },
    "CI, narrow, far away": {
        "CI": "true",
        "FORCE_COLOR": "1",
        "COLUMNS": "20",
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "POSIX",
    },
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_result_does_not_depend_on_the_environment(name: str) -> None:
    kept = {
        key: os.environ[key]
        for key in ("PATH", "HOME", "PYTHONPATH", "KWIRE_SHARED")
        if key in os.environ
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *SENSITIVE],
        cwd=ROOT,
        env=kept | ENVIRONMENTS[name],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout[-4000:]
