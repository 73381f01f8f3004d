"""The control experiment: against Kafka, every driver reports every record of an ordinary
topic, and follows it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.clients import GROUP, WAYS, Way, need_clients
from tests.interop.conftest import READ
from tests.interop.reading import Record, digest, first_difference
from tests.interop.session import Decision, read_with_every_client
from tools.kafka import kafka

_TOPIC = "control-experiment"
_FIRST, _LATER, _BEGIN_MS = 300, 20, 1_700_000_000_000


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[Way, Decision]]:
    need_clients()
    from confluent_kafka import Producer

    with kafka(properties={"auto.create.topics.enable": "true"}) as cluster:
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": "t",
            "enable.idempotence": True,
        }
        producer = Producer(settings)
        producer.init_transactions()
        _produce(producer, 0, _FIRST)
        yield read_with_every_client(
            cluster.bootstrap, _TOPIC, _FIRST, lambda: _produce(producer, _FIRST + 1, _LATER), WAYS
        )


def _produce(producer: object, offset: int, count: int) -> int:
    """``count`` records in one transaction, whose end takes one more offset."""
    producer.begin_transaction()  # type: ignore[attr-defined]
    for record in _records(offset, count):
        producer.produce(  # type: ignore[attr-defined]
            _TOPIC, key=record.key, value=record.value, partition=0, timestamp=record.timestamp
        )
    producer.commit_transaction()  # type: ignore[attr-defined]
    return count


def _records(offset: int, count: int) -> list[Record]:
    """Absent, empty and binary keys and values in turn; newlines and what looks like a separator
    among them.
    """
    values: tuple[bytes | None, ...] = (b"plain", b"\n<>\r\n\x00\xff", None, b"", "größer".encode())
    return [
        Record(n, _BEGIN_MS + n, values[n // 5 % 5], values[n % 5])
        for n in range(offset, offset + count)
    ]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_driver_reports_the_records_that_kafka_holds(
    outcomes: dict[Way, Decision], way: Way
) -> None:
    decision = outcomes[way]
    expected = _records(0, _FIRST) + _records(_FIRST + 1, _LATER)
    assert not decision.error
    assert not first_difference(decision.records, expected)
    if way.mode == GROUP:
        end = _FIRST + _LATER + 2
        assert decision.committed in (end - 1, end)
    READ.append(("(real Kafka)", str(way), len(decision.records), digest(decision.records)))
