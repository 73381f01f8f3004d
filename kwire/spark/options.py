"""Makes the options of Spark's Kafka source, under Spark's own names. It knows no Spark: the result
is a dict of strings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from kwire.protocol import CLUSTER_METADATA_TOPIC

METADATA_TOPIC = CLUSTER_METADATA_TOPIC

#: How the source picks its partitions: the option that Spark takes the topic by.
Way = Literal["subscribe", "subscribePattern", "assign"]
#: ``"earliest"``, ``"latest"``, an offset of partition 0, or a time with a zone.
Position = str | int | datetime


def kafka_options(
    bootstrap: str,
    *,
    topic: str = METADATA_TOPIC,
    by: Way = "subscribe",
    start: Position | None = None,
    end: Position | None = None,
    max_offsets_per_trigger: int | None = None,
    fail_on_data_loss: bool | None = None,
    **more: object,
) -> dict[str, str]:
    """Options for ``spark.read.format("kafka")`` and ``spark.readStream.format("kafka")``.

    ``bootstrap`` is ``host:port,...``. ``topic`` is a Java regular expression with
    ``by="subscribePattern"``, and with ``by="assign"`` partition 0 of it is read. ``start`` and
    ``end`` (batch only, exclusive) are ``"earliest"``, ``"latest"``, an offset, or an aware
    datetime, which means the first record at that time or later; if it is left out, Spark reads a
    batch from earliest to latest and starts a stream at latest. A stream that has a checkpoint
    ignores ``start``. ``max_offsets_per_trigger`` bounds a micro-batch in records.
    ``fail_on_data_loss=False`` lets a query continue if offsets that it needs have been deleted.
    ``more`` are options by their own names, ``kafka.`` ones too: ``**{"kafka.max.poll.records":
    5000}``. Raises ValueError for what Spark would misread or refuse later.
    """
    options = {
        "kafka.bootstrap.servers": bootstrap,
        by: json.dumps({topic: [0]}) if by == "assign" else topic,
    }
    if by not in ("subscribe", "subscribePattern", "assign"):
        raise ValueError(f"by is subscribe, subscribePattern or assign, not {by!r}")
    if start is not None:
        options |= _position("starting", start, topic, by)
    if end is not None:
        if end == "earliest":
            raise ValueError("a batch cannot end at earliest")
        options |= _position("ending", end, topic, by)
    if max_offsets_per_trigger is not None:
        if max_offsets_per_trigger < 1:
            raise ValueError(
                "max_offsets_per_trigger is a number of records from 1, not"
                f" {max_offsets_per_trigger}"
            )
        options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
    if fail_on_data_loss is not None:
        options["failOnDataLoss"] = _text(fail_on_data_loss)
    return options | {name: _text(value) for name, value in more.items()}


def _position(side: str, position: Position, topic: str, by: Way) -> Mapping[str, str]:
    if isinstance(position, datetime):
        if position.tzinfo is None:
            raise ValueError(f"{position} has no time zone: give an aware datetime")
        # Integer arithmetic: a float cannot hold every millisecond of a far date.
        since = position - datetime.fromtimestamp(0, position.tzinfo)
        return {
            f"{side}Timestamp": str(
                (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
            )
        }
    if isinstance(position, str):
        if position not in ("earliest", "latest"):
            raise ValueError(
                f"a position is earliest, latest, an offset or a datetime, not {position!r}"
            )
        return {f"{side}Offsets": position}
    if by == "subscribePattern":
        raise ValueError(
            "an offset needs the name of the topic: use subscribe or assign, not subscribePattern"
        )
    if position < 0:
        raise ValueError(f"an offset is a number from 0, not {position}")
    return {f"{side}Offsets": json.dumps({topic: {"0": position}})}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
