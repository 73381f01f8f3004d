"""``kwire serve`` without options, as ``make serve`` runs it: every client reads the log that
the package contains.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import gateway
from kwire.protocol import CLUSTER_METADATA_PARTITION, CLUSTER_METADATA_TOPIC
from tests.interop.clients import WAYS, Way, need_clients
from tests.interop.conftest import READ
from tests.interop.reading import digest, first_difference
from tests.interop.session import Decision, read_with_every_client
from tests.interop.truth import Log, log_of
from tools.gateway_process import gateway as serving


@pytest.fixture(scope="module")
def read() -> Iterator[tuple[Log, dict[Way, Decision]]]:
    need_clients()
    log = log_of(Path(gateway.__file__).parent / "sample" / CLUSTER_METADATA_PARTITION, None)
    count = len(log.snapshot_values()) + len(log.records())
    with serving() as server:
        yield (
            log,
            read_with_every_client(server.bootstrap, CLUSTER_METADATA_TOPIC, count, lambda: 0),
        )


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_client_reads_every_record_of_the_sample(
    read: tuple[Log, dict[Way, Decision]], way: Way
) -> None:
    log, outcomes = read
    decision = outcomes[way]
    assert not decision.error
    beyond_prefix = [record for record in decision.records if record.offset >= log.start_offset]
    assert len(decision.records) - len(beyond_prefix) == len(log.snapshot_values())
    assert not first_difference(beyond_prefix, log.records())
    READ.append(("(sample)", str(way), len(decision.records), digest(decision.records)))
