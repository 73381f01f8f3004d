"""Notes how fast something was, for ``python -m tools.check waits``. No test fails by it.

::

    @pytest.mark.speed  # such a test runs in that job alone
    def test_authorizer_answers_many_questions() -> None:
        for _ in rounds():
            with measured("14,000 questions", usual_s=0.2):
                ask()

A blocking test may note a figure as well, as ``tests/hostile/bystander.py`` does: it runs one round
and no bar is applied, while the job runs it for five. The job compares the best round of each
figure with three times its usual value, prints all of them, and blocks nothing.

The figures go to the file that ``KWIRE_SPEED`` names; without it nothing is noted.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

#: Rounds of each measurement in the job.
_ROUNDS: Final = 5


def rounds() -> range:
    """The rounds of a measurement: five in the job, otherwise one."""
    return range(_ROUNDS if "KWIRE_SPEED" in os.environ else 1)


def note(what: str, seconds: float, usual_s: float) -> None:
    """Note that ``what`` of the running test took ``seconds``, and on a quiet machine ``usual_s``.

    The rounds of a figure have the same ``what``.
    """
    if (path := os.environ.get("KWIRE_SPEED")) is None:
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    row = {"test": test, "what": what, "seconds": seconds, "usual_s": usual_s}
    with Path(path).open("a") as file:
        file.write(json.dumps(row) + "\n")


@contextlib.contextmanager
def measured(
    what: str, usual_s: float, clock: Callable[[], float] = time.perf_counter
) -> Iterator[None]:
    """Note what the block takes by ``clock``; nothing if it raises."""
    began = clock()
    yield
    note(what, clock() - began, usual_s)
