"""Asks a server, before Spark reads from it, which cluster it is and from where to where its views
go. By kafka-python; it knows no Spark.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kwire.spark.fleet.plan import Anchor, Found
from kwire.spark.fleet.views import VIEWS
from kwire.spark.source.options import Settings, settings_of
from kwire.spark.source.server import ServerError, sentences

_CONNECT_S: Final = 2.0
#: For the server's first fold of a long log.
_FIRST_RECORD_S: Final = 120.0
#: Nearly every cluster has features from its first record on, so this view is looked at first.
_RARELY_EMPTY: Final = VIEWS["features"].topic


def settings(options: Mapping[str, str]) -> Settings:
    """Return how kafka-python connects with the options of Spark's Kafka source. Raises
    ValueError.
    """
    return settings_of({"pollTimeoutMs": "2000", **options})


def check_reachable(options: Mapping[str, str]) -> None:
    """Raise ServerError, in two seconds, if none of the addresses can be connected to; ValueError
    for an address that is none.
    """
    said: dict[str, str] = {}
    for address in settings(options).bootstrap.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not colon or not host or not port.isdigit():
            raise ValueError(f"{address!r} is not HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
            return
        except OSError as error:
            said[address] = error.strerror or str(error)
    raise ServerError("; ".join(f"cannot connect to {where}: {why}" for where, why in said.items()))


def ask(
    options: Mapping[str, str], anchors: Mapping[str, Anchor | None], views: Sequence[str]
) -> Found:
    """Return what the server has of ``views`` now, and of the cluster's record among ``anchors``,
    which are by cluster. Raises ServerError, ValueError.
    """
    check_reachable(options)
    how = settings(options)
    with sentences(how):
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(
            bootstrap_servers=how.bootstrap.split(","),
            group_id=None,
            enable_auto_commit=False,
            max_poll_records=1,
            fetch_max_bytes=1 << 16,
            **how.client,
        )
        try:
            topics = dict.fromkeys((_RARELY_EMPTY, *(VIEWS[one].topic for one in views)))
            places = [TopicPartition(topic, 0) for topic in topics]
            consumer.assign(places)
            ends, begins = consumer.end_offsets(places), consumer.beginning_offsets(places)
            begin, end = max(begins.values()), min(ends.values())
            found = (_record(consumer, place, begin, end) for place in places)
            first = next((one for one in found if one is not None), None)
            cluster_id = _cluster_id(consumer)
            anchor, at_anchor = anchors.get(cluster_id), None
            if anchor is not None and begin <= anchor.offset < end:
                place = TopicPartition(anchor.topic, 0)
                at_anchor = _record(consumer, place, anchor.offset, anchor.offset + 1)
            return Found(cluster_id, begin, end, first, at_anchor)
        finally:
            consumer.close()


def _record(consumer: Any, place: Any, offset: int, end: int) -> Anchor | None:
    """The first record from ``offset`` on; None if there is none before ``end``. Raises ServerError
    if the server gives nothing in time.
    """
    consumer.assign([place])
    consumer.seek(place, offset)
    deadline = time.monotonic() + _FIRST_RECORD_S
    while time.monotonic() < deadline:
        for record in consumer.poll(timeout_ms=200, max_records=1).get(place, []):
            return Anchor(record.topic, record.offset, record.timestamp)
        if consumer.position(place) >= end:
            return None
    raise ServerError(f"the server gives nothing of {place.topic} behind offset {offset}")


def _cluster_id(consumer: Any) -> str:
    """The cluster's id as Metadata answers. Raises ServerError."""
    found = consumer._manager.cluster.cluster_id
    if not found:
        raise ServerError("the server does not say which cluster it is")
    return str(found)
