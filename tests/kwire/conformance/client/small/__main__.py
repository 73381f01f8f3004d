"""Runs a small client as a program: see the package."""

from __future__ import annotations

import functools
import signal
import sys

from tests.kwire.conformance.client.small.life import Life
from tests.kwire.conformance.client.small.run import run

if __name__ == "__main__":
    life = Life(sys.argv[2], functools.partial(print, flush=True))
    signal.signal(signal.SIGTERM, lambda number, frame: life.stop())
    sys.exit(run(life, sys.argv[1], sys.argv[3], sys.argv[4]))
