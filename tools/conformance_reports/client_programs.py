"""Programs for ``kwire conform --client``: consumers and producers on Python's Kafka libraries.

    python -m tools.conformance_reports.client_programs kafka-python consume BOOTSTRAP TOPIC GROUP

Each is what the manual of its library shows. A consumer prints the value of every record; a
producer writes thirty records and ends. GROUP ``-`` means: assign partition 0. With ``sasl`` behind
GROUP connections authenticate with SASL/PLAIN.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

_RECORDS: Final = 30
_USER: Final = "kwire"


def _values() -> list[bytes]:
    return [b"record %03d" % number for number in range(_RECORDS)]


def _print(value: bytes | None) -> None:
    sys.stdout.buffer.write((value or b"null").split(b"\n")[0] + b"\n")
    sys.stdout.buffer.flush()


def _kafka_python_settings(bootstrap: str, sasl: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap}
    if sasl:
        settings |= {
            "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
            "sasl_plain_username": _USER, "sasl_plain_password": _USER,
        }  # fmt: skip
    return settings


def kafka_python_consume(bootstrap: str, topic: str, group: str | None, sasl: bool) -> None:
    """A consumer with kafka-python."""
    from kafka import KafkaConsumer, TopicPartition

    settings = _kafka_python_settings(bootstrap, sasl)
    consumer = KafkaConsumer(group_id=group, auto_offset_reset="earliest", **settings)
    if group is None:
        consumer.assign([TopicPartition(topic, 0)])
    else:
        consumer.subscribe([topic])
    try:
        while True:
            for messages in consumer.poll(timeout_ms=1000).values():
                for message in messages:
                    _print(message.value)
    finally:
        consumer.close()


def kafka_python_produce(bootstrap: str, topic: str, group: str | None, sasl: bool) -> None:
    """A producer with kafka-python, whose default is idempotence."""
    from kafka import KafkaProducer

    producer = KafkaProducer(linger_ms=0, batch_size=100, **_kafka_python_settings(bootstrap, sasl))
    sent = [producer.send(topic, value, partition=0) for value in _values()]
    for one in sent:
        one.get(timeout=20)
    producer.close()


def _confluent_settings(bootstrap: str, sasl: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    if sasl:
        settings |= {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.username": _USER, "sasl.password": _USER,
        }  # fmt: skip
    return settings


def confluent_kafka_consume(bootstrap: str, topic: str, group: str | None, sasl: bool) -> None:
    """A consumer with confluent-kafka, which goes on after errors that are not fatal."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            **_confluent_settings(bootstrap, sasl),
            "group.id": group or "no-group",
            "enable.auto.commit": group is not None,
            "auto.offset.reset": "earliest",
        }
    )
    if group is None:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    else:
        consumer.subscribe([topic])
    try:
        while True:
            message = consumer.poll(0.5)
            error = None if message is None else message.error()
            if error is not None:
                print(error, file=sys.stderr, flush=True)
                if error.fatal():
                    sys.exit(1)
            elif message is not None:
                _print(message.value())
    finally:
        consumer.close()


def confluent_kafka_produce(bootstrap: str, topic: str, group: str | None, sasl: bool) -> None:
    """An idempotent producer with confluent-kafka."""
    from confluent_kafka import Producer

    settings = _confluent_settings(bootstrap, sasl)
    producer = Producer(
        {**settings, "enable.idempotence": True, "batch.num.messages": 5, "linger.ms": 0}
    )
    failed: list[Any] = []
    for value in _values():
        producer.produce(
            topic, value, partition=0,
            on_delivery=lambda error, message: failed.append(error) if error else None,
        )  # fmt: skip
    left = producer.flush(20)
    sys.exit(1 if failed or left else 0)


def _aiokafka_settings(bootstrap: str, sasl: bool) -> dict[str, Any]:
    return _kafka_python_settings(bootstrap, sasl)


async def _until_terminated(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task


def aiokafka_consume(bootstrap: str, topic: str, group: str | None, sasl: bool) -> None:
    """A consumer with aiokafka."""

    async def consume() -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        settings = _aiokafka_settings(bootstrap, sasl)
        consumer = AIOKafkaConsumer(group_id=group, auto_offset_reset="earliest", **settings)
        if group is None:
            consumer.assign([TopicPartition(topic, 0)])
        else:
            consumer.subscribe([topic])
        await consumer.start()
        try:
            async for message in consumer:
                _print(message.value)
        finally:
            await consumer.stop()

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_until_terminated(consume()))


def aiokafka_produce(bootstrap: str, topic: str, group: str | None, sasl: bool) -> None:
    """An idempotent producer with aiokafka."""

    async def produce() -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            enable_idempotence=True, max_batch_size=100, **_aiokafka_settings(bootstrap, sasl)
        )
        await producer.start()
        try:
            sent = [await producer.send(topic, value, partition=0) for value in _values()]
            for one in sent:
                await one
        finally:
            await producer.stop()

    asyncio.run(produce())


PROGRAMS: Final[dict[tuple[str, str], Callable[[str, str, str | None, bool], None]]] = {
    ("kafka-python", "consume"): kafka_python_consume,
    ("kafka-python", "produce"): kafka_python_produce,
    ("confluent-kafka", "consume"): confluent_kafka_consume,
    ("confluent-kafka", "produce"): confluent_kafka_produce,
    ("aiokafka", "consume"): aiokafka_consume,
    ("aiokafka", "produce"): aiokafka_produce,
}


def main(words: list[str]) -> None:
    """Run the program that the words name. SIGTERM ends it as an application ends: it closes."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    library, way, bootstrap, topic, group, *more = words
    PROGRAMS[library, way](bootstrap, topic, None if group == "-" else group, more == ["sasl"])


if __name__ == "__main__":
    main(sys.argv[1:])
