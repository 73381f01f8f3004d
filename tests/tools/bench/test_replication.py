"""The bench of three brokers, small, of kwire beside itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.bench.replication import Brokers, Sizes, own_brokers, rows
from tools.bench.report import holds

_SIZES = Sizes(partitions=4, asked=3, batch=4096, measured_s=0.3, warm_up_s=0.1, rounds=1, kills=1)


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with own_brokers() as running:
        yield running


def test_every_row_of_three_brokers_has_values_and_a_bar(brokers: Brokers) -> None:
    """The measurements compare the ends of the logs with what was sent."""
    found = list(rows([brokers, Brokers("itself", brokers.cluster)], _SIZES))
    assert [row["unit"] for row in found] == ["s CPU/GB", "µs CPU/batch", "s"]
    for row in found:
        assert row["peer"] == "itself" and holds(row) is not None
        assert row["unit"] != "s" or min(row["kwire"], row["peer_value"]) > 0
