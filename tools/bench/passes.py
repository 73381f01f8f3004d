"""Reads a whole topic with a stock client and returns the seconds. The same calls serve kwire and
Kafka.

The clients of librdkafka begin at offset 0. They would ask the leader for "the beginning", and
while they know none, ask again after half a second: longer than a pass, and dependent on the order
of their threads.
"""

from __future__ import annotations

import shutil
import subprocess
import time
import uuid

from tools import java, java_tools

_TIMEOUT_S = 120.0


class PassError(Exception):
    """A client did not read the whole topic; the text holds the client's output."""


def kcat(bootstrap: str, topic: str, count: int) -> float:
    """Run a kcat process that reads ``count`` messages and discards them.

    Its queue holds all of them. With the default of 100,000 the client sleeps for a second each
    time a server fills the queue before kcat has emptied it, which measures that second alone.
    """
    command = [
        "kcat",
        "-C",
        "-q",
        "-X",
        f"queued.min.messages={count},queued.max.messages.kbytes=1048576",
        "-b",
        bootstrap,
        "-t",
        topic,
        "-p",
        "0",
        "-o",
        "0",
        "-c",
        str(count),
    ]
    began = time.perf_counter()
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise PassError(
            f"kcat ended with {done.returncode}: {done.stderr.decode(errors='replace')[-1000:]}"
        )
    return time.perf_counter() - began


def confluent_kafka(bootstrap: str, topic: str, count: int) -> float:
    """Return the time of a new consumer from its assignment to the last message.

    Its queue holds 100,000 messages, and when it is full the client sleeps for a second before it
    fetches again. With small messages that sleep would dominate the measurement, so it is a
    millisecond here.
    """
    from confluent_kafka import Consumer, TopicPartition

    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 1,
    }
    consumer = Consumer(settings)
    try:
        began, seen = time.perf_counter(), 0
        consumer.assign([TopicPartition(topic, 0, 0)])
        while seen < count:
            seen += len(consumer.consume(num_messages=min(10_000, count - seen), timeout=1.0))
            if time.perf_counter() - began > _TIMEOUT_S:
                raise PassError(
                    f"confluent-kafka had {seen} of {count} messages after {_TIMEOUT_S:.0f} s"
                )
        took = time.perf_counter() - began
        # An error comes in place of a message: each would leave one unread.
        (reached,) = consumer.position([TopicPartition(topic, 0)])
        if reached.offset < count:
            raise PassError(f"confluent-kafka came to offset {reached.offset} of {count}")
        return took
    finally:
        consumer.close()


def java_consumer(bootstrap: str, topic: str, count: int) -> float:
    """Return the fetch time that kafka-consumer-perf-test prints: without the JVM's start and the
    joining of the group.
    """
    output = java_tools.run_tool(
        java.CONSUMER_PERFORMANCE,
        [
            "--bootstrap-server",
            bootstrap,
            "--topic",
            topic,
            "--num-records",
            str(count),
            "--group",
            f"g-{uuid.uuid4().hex[:8]}",
            "--hide-header",
            "--timeout",
            "30000",
        ],
        timeout_s=_TIMEOUT_S,
    )
    fields = [field.strip() for field in output.strip().splitlines()[-1].split(",")]
    if len(fields) < 8 or int(fields[4]) < count:
        raise PassError(f"kafka-consumer-perf-test did not read {count} records: {output[-1000:]}")
    return int(fields[7]) / 1000


def available() -> list[str]:
    """Return the programs that passes lack on this machine; empty if all can run."""
    missing = [] if shutil.which("kcat") else ["kcat"]
    try:
        java.class_path()
        java.java()
    except java.JavaError as error:
        missing.append(str(error))
    return missing
