"""Real Kafka that lost its controllers leads again from what ``kwire rescue`` wrote.

The cases are those of ``tools.rescue_drill``, which proves after each that the topic's id, its
configuration, permissions and users are as before, that every acknowledged record can be read, that
replicas are in sync, and that lost controllers can be made voters again. It runs them all, and on
more releases than a test run has time for.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import pytest

from tests.interop.quorum import need_kafka
from tools import java
from tools.rescue_drill.cases import CASES

pytestmark = pytest.mark.interop

#: A release beside the usual one.
OTHER: Final = "4.1.2"
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
RUNS: Final = [(OTHER if name == "broker" else java.KAFKA_VERSION, name) for name in LOST]


@pytest.mark.parametrize(("release", "name"), RUNS, ids=[f"{name}-{of}" for of, name in RUNS])
def test_a_quorum_that_lost_controllers_is_back_with_everything_in_it(
    release: str, name: str, tmp_path: Path
) -> None:
    need_kafka(release)
    case = CASES[name]
    with case.cluster(release) as tried:
        if name == "survivor":
            tried.kafka_home = a_release(tmp_path, release)
        case.run(tried)
        loss = tried.inspected["loss"]
    assert loss["absent"] == LOST[name]
    assert loss["excluded"] == (not LOST[name])


def a_release(directory: Path, version: str) -> Path:
    """A directory with the start script of a Kafka release, for the jars that tests run."""
    script = directory / "kafka" / "bin" / "kafka-server-start.sh"
    script.parent.mkdir(parents=True)
    line = shlex.join(java.command(java.SERVER, [], version=version))
    script.write_text(f'#!/bin/sh\nexec {line} "$1"\n')
    script.chmod(0o755)
    return script.parent.parent
