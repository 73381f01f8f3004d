"""Real Kafka that lost its controllers leads again from what ``kwire rescue`` wrote.

The cases are those of ``tools.rescue_drill``, which proves after each that the topic's id, its
configuration, permissions and users are as before, that every acknowledged record can be read, that
replicas are in sync, and that lost controllers can be made voters again. It runs them all, and on
more releases than a test run has time for.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.interop.quorum import need_kafka
from tools import java
from tools.rescue_drill.cases import CASES

pytestmark = pytest.mark.interop

#: Case -> the voters without a whole copy.
LOST: Final = {
    "survivor": [2, 3],
    "broker": [1, 2, 3],
    "snapshot": [1, 2, 3],
    "gateway": [1, 2, 3],
    "moved": [],
    "static": [2, 3],
    "damaged": [1, 2, 3],
}
#: Release -> cases that are tried on one cluster, one after the other: what one case brought back
#: is lost in the next one.
RUNS: Final = [
    (java.KAFKA_VERSION, ("survivor", "damaged", "snapshot", "gateway", "moved")),
    ("4.1.2", ("static", "broker")),
]


@pytest.mark.parametrize(("release", "names"), RUNS, ids=[f"{one[0]}-{of}" for of, one in RUNS])
def test_a_quorum_that_lost_controllers_is_back_with_everything_in_it(
    release: str, names: Sequence[str], tmp_path: Path
) -> None:
    need_kafka(release)
    with CASES[names[0]].cluster(release) as tried:
        for name in names:
            print(f"case {name}")
            if name != names[0]:
                tried.begin_again()
            tried.kafka_home = a_release(tmp_path, release) if name == "survivor" else None
            CASES[name].run(tried)
            loss = tried.inspected["loss"]
            assert loss["absent"] == LOST[name]
            assert loss["excluded"] == (not LOST[name])


def test_every_case_of_a_test_run_is_tried_once() -> None:
    assert sorted(name for _, names in RUNS for name in names) == sorted(LOST)


def a_release(directory: Path, version: str) -> Path:
    """A directory with the start script of a Kafka release, for the jars that tests run."""
    script = directory / "kafka" / "bin" / "kafka-server-start.sh"
    script.parent.mkdir(parents=True)
    line = shlex.join(java.command(java.SERVER, [], version=version))
    script.write_text(f'#!/bin/sh\nexec {line} "$1"\n')
    script.chmod(0o755)
    return script.parent.parent
