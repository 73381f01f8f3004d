"""Runs librdkafka's mock cluster and prints the address of its broker, until SIGTERM.

    python -m tools.other_servers.mock_cluster [TOPIC ...]

librdkafka has the cluster in the process of a client, for tests of applications: ``kcat -X
test.mock.num.brokers=1`` starts the same one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Producer

_SETTINGS: Final = {
    "test.mock.num.brokers": 1,
    "bootstrap.servers": "unused:9092",
    "log_level": 0,
    "batch.num.messages": 10,
}
_RECORDS: Final = 100


def main(topics: Sequence[str]) -> None:
    """Start the cluster with empty topics, or with one that has records."""
    client = Producer(_SETTINGS)
    for topic in topics:
        client.list_topics(topic, timeout=20)
    for number in range(0 if topics else _RECORDS):
        client.produce("records", f"record {number:03}", partition=0)
    client.flush(20)
    for broker in client.list_topics(timeout=20).brokers.values():
        print(f"{broker.host}:{broker.port}", flush=True)
    while True:
        client.poll(1)


if __name__ == "__main__":
    main(sys.argv[1:])
