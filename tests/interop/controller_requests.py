"""Requests about topics and configurations to Kafka's controller and to kwire's; each meets the
state that the ones before left.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.message import Message
from kwire.protocol import ConfigResourceType
from tests.gateway.controller.cluster import create, made

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
METRICS, GROUP = ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP
SET, DELETE, APPEND, SUBTRACT = range(4)


def topic(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}


def by_hand(name: str, *assignments: tuple[int, list[int]], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "assignments": [{"partition_index": i, "broker_ids": ids} for i, ids in assignments],
        **more,
    }


def configured(name: str, *configs: tuple[str, str | None]) -> dict[str, Any]:
    return topic(name, configs=[{"name": key, "value": value} for key, value in configs])


def delete(*topics: dict[str, Any]) -> Message:
    return made("DeleteTopicsRequest", topics=list(topics), timeout_ms=10_000)


def grow(*topics: dict[str, Any], **more: Any) -> Message:
    return made("CreatePartitionsRequest", topics=list(topics), timeout_ms=10_000, **more)


def more(name: str, count: int, *assignments: list[int]) -> dict[str, Any]:
    return {
        "name": name,
        "count": count,
        "assignments": [{"broker_ids": one} for one in assignments] or None,
    }


def alter(*resources: tuple[int, str, list[tuple[str, int, str | None]]], **more: Any) -> Message:
    asked = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [
                {"name": key, "config_operation": operation, "value": value}
                for key, operation, value in changes
            ],
        }
        for kind, name, changes in resources
    ]
    return made("IncrementalAlterConfigsRequest", resources=asked, **more)


def replace(*resources: tuple[int, str, list[tuple[str, str | None]]]) -> Message:
    asked = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": key, "value": value} for key, value in configs],
        }
        for kind, name, configs in resources
    ]
    return made("AlterConfigsRequest", resources=asked)


def describe(*resources: tuple[int, str]) -> Message:
    asked = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        for kind, name in resources
    ]
    return made("DescribeConfigsRequest", resources=asked, include_synonyms=True)


#: (what it is about, the request). Node 1 is the only one.
REQUESTS: Final[list[tuple[str, Message]]] = [
    ("plain", create(topic("a", 3), timeout_ms=10_000)),
    ("exists", create(topic("a"), timeout_ms=10_000)),
    ("defaults", create({"name": "d"}, timeout_ms=10_000)),
    ("validate only", create(topic("v"), validate_only=True, timeout_ms=10_000)),
    ("duplicates in one request", create(topic("b"), topic("b"), topic("c"), timeout_ms=10_000)),
    ("collision", create(topic("x.y"), timeout_ms=10_000)),
    ("collides", create(topic("x_y"), topic("x-y"), timeout_ms=10_000)),
    (
        "names",
        create(
            topic(""),
            topic("."),
            topic(".."),
            topic("a b"),
            topic("ü"),
            topic("n" * 250),
            timeout_ms=10_000,
        ),
    ),
    ("longest name", create(topic("n" * 249), timeout_ms=10_000)),
    ("the metadata log", create(topic("__cluster_metadata"), timeout_ms=10_000)),
    ("no partitions", create(topic("p", 0), topic("q", -2), timeout_ms=10_000)),
    (
        "bad factors",
        create(topic("p", 1, 0), topic("q", 1, -2), topic("r", 1, 2), timeout_ms=10_000),
    ),
    ("too many partitions", create(topic("p", 10_001), topic("q"), timeout_ms=10_000)),
    ("by hand", create(by_hand("h", (0, [1]), (1, [1])), timeout_ms=10_000)),
    ("by hand and a count", create(by_hand("i", (0, [1]), num_partitions=1), timeout_ms=10_000)),
    (
        "by hand and a factor",
        create(by_hand("i", (0, [1]), replication_factor=1), timeout_ms=10_000),
    ),
    ("by hand, no replicas", create(by_hand("i", (0, [])), timeout_ms=10_000)),
    ("by hand, a node twice", create(by_hand("i", (0, [1, 1])), timeout_ms=10_000)),
    ("by hand, unknown node", create(by_hand("i", (0, [9])), timeout_ms=10_000)),
    ("by hand, a gap", create(by_hand("i", (0, [1]), (2, [1])), timeout_ms=10_000)),
    ("by hand, an index twice", create(by_hand("i", (0, [1]), (0, [1])), timeout_ms=10_000)),
    (
        "configured",
        create(
            configured("e", ("retention.ms", " 5000 "), ("cleanup.policy", "compact, delete")),
            timeout_ms=10_000,
        ),
    ),
    (
        "configured wrongly",
        create(
            configured("f", ("retention.ms", "x")),
            configured("g", ("nope", "1")),
            timeout_ms=10_000,
        ),
    ),
    (
        "configured with blanks that only Java's trim leaves",
        create(
            configured("f", ("retention.ms", "\xa086400000")),
            configured("g", ("cleanup.policy", "compact,\u2003delete")),
            configured("l", ("leader.replication.throttled.replicas", "0:101,\xa01:101")),
            timeout_ms=10_000,
        ),
    ),
    ("configured with null", create(configured("f", ("retention.ms", None)), timeout_ms=10_000)),
    (
        "tiered storage",
        create(configured("f", ("remote.storage.enable", "true")), timeout_ms=10_000),
    ),
    (
        "conflict",
        create(
            configured("f", ("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "5")),
            timeout_ms=10_000,
        ),
    ),
    (
        "a key twice",
        create(configured("k", ("retention.ms", "5"), ("retention.ms", "6")), timeout_ms=10_000),
    ),
    ("grow", grow(more("a", 5))),
    ("grow by nothing", grow(more("a", 5))),
    ("shrink", grow(more("a", 2), more("d", -1))),
    ("grow what is not there", grow(more("zz", 5))),
    ("grow twice in one request", grow(more("a", 6), more("a", 7))),
    ("grow, validate only", grow(more("a", 9), validate_only=True)),
    ("grow by hand", grow(more("h", 3, [1]))),
    ("grow by hand, too few", grow(more("h", 5, [1]))),
    ("grow by hand, wrong factor", grow(more("h", 4, [1, 1]))),
    ("grow by hand, unknown node", grow(more("h", 4, [7]))),
    ("set", alter((TOPIC, "a", [("retention.ms", SET, "7"), ("segment.ms", SET, "8")]))),
    ("set to the same", alter((TOPIC, "a", [("retention.ms", SET, "7")]))),
    ("unset", alter((TOPIC, "a", [("segment.ms", DELETE, None)]))),
    ("unset what is not set", alter((TOPIC, "a", [("flush.ms", DELETE, None)]))),
    ("append", alter((TOPIC, "a", [("cleanup.policy", APPEND, "compact")]))),
    ("append what is there", alter((TOPIC, "a", [("cleanup.policy", APPEND, "compact,delete")]))),
    ("subtract", alter((TOPIC, "a", [("cleanup.policy", SUBTRACT, "delete,nothing")]))),
    ("append to what is no list", alter((TOPIC, "a", [("retention.ms", APPEND, "5")]))),
    ("append a wrong element", alter((TOPIC, "a", [("cleanup.policy", APPEND, "never")]))),
    ("unknown operation", alter((BROKER, "1", [("num.io.threads", 7, "5")]))),
    ("null", alter((TOPIC, "a", [("retention.ms", SET, None)]))),
    ("a blank beyond ASCII", alter((TOPIC, "a", [("retention.ms", SET, "\u30005")]))),
    ("digits of another script", alter((TOPIC, "a", [("flush.ms", SET, "\u0665")]))),
    ("control characters around", alter((TOPIC, "a", [("preallocate", SET, "\0True\x1f")]))),
    ("unknown key", alter((TOPIC, "a", [("retention", SET, "5")]))),
    ("unknown topic", alter((TOPIC, "zz", [("retention.ms", SET, "5")]))),
    ("unknown topic and wrong value", alter((TOPIC, "zz", [("retention.ms", SET, "x")]))),
    ("no topic", alter((TOPIC, "", [("retention.ms", SET, "5")]))),
    ("no name for a topic", alter((TOPIC, "a b", [("retention.ms", SET, "5")]))),
    (
        "a resource twice",
        alter((TOPIC, "a", [("retention.ms", SET, "5")]), (TOPIC, "a", [("flush.ms", SET, "5")])),
    ),
    (
        "a key of a resource twice",
        alter((TOPIC, "a", [("retention.ms", SET, "5"), ("retention.ms", SET, "6")])),
    ),
    (
        "one of two wrong",
        alter((TOPIC, "a", [("flush.ms", SET, "x")]), (TOPIC, "d", [("flush.ms", SET, "5")])),
    ),
    ("min isr of a topic", alter((TOPIC, "a", [("min.insync.replicas", SET, "2")]))),
    ("validate only configs", alter((TOPIC, "a", [("flush.ms", SET, "99")]), validate_only=True)),
    (
        "broker default",
        alter((BROKER, "", [("log.retention.ms", SET, "50000"), ("num.io.threads", SET, "9")])),
    ),
    ("broker", alter((BROKER, "1", [("log.retention.ms", SET, "60000")]))),
    ("broker, needs a restart", alter((BROKER, "1", [("node.id", SET, "2")]))),
    ("broker, a listener's", alter((BROKER, "1", [("ssl.keystore.type", SET, "PEM")]))),
    ("brokers, one broker's", alter((BROKER, "", [("principal.builder.class", SET, "x")]))),
    ("broker, wrong value", alter((BROKER, "", [("num.io.threads", SET, "many")]))),
    ("broker, no number", alter((BROKER, "one", [("num.io.threads", SET, "9")]))),
    ("broker, min isr", alter((BROKER, "1", [("min.insync.replicas", SET, "1")]))),
    ("brokers, no min isr", alter((BROKER, "", [("min.insync.replicas", DELETE, None)]))),
    (
        "client metrics",
        alter((METRICS, "m", [("metrics", SET, "a,b"), ("interval.ms", SET, "1000")])),
    ),
    (
        "client metrics, append",
        alter((METRICS, "m", [("metrics", APPEND, "c"), ("match", APPEND, "client_id=x")])),
    ),
    ("client metrics, wrong key", alter((METRICS, "m", [("metric", SET, "a")]))),
    ("client metrics, too often", alter((METRICS, "m", [("interval.ms", SET, "9")]))),
    ("client metrics, no number", alter((METRICS, "m", [("interval.ms", SET, "often")]))),
    ("client metrics, wrong pattern", alter((METRICS, "m", [("match", SET, "shoe=9")]))),
    ("client metrics, no name", alter((METRICS, "", [("interval.ms", SET, "1000")]))),
    ("group", alter((GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]))),
    ("group, too long", alter((GROUP, "g", [("consumer.session.timeout.ms", SET, "70000")]))),
    ("group, unknown", alter((GROUP, "g", [("session", SET, "50000")]))),
    ("group, no name", alter((GROUP, "", [("consumer.session.timeout.ms", SET, "50000")]))),
    ("unknown kind", alter((99, "g", [("x", SET, "1")]))),
    ("replace", replace((TOPIC, "d", [("retention.ms", "9")]))),
    ("replace, wrong", replace((TOPIC, "d", [("retention.ms", "x")]), (TOPIC, "zz", []))),
    ("replace, null", replace((TOPIC, "d", [("retention.ms", None)]))),
    (
        "describe topics",
        describe((TOPIC, "a"), (TOPIC, "d"), (TOPIC, "e"), (TOPIC, "zz"), (TOPIC, "a b")),
    ),
    ("describe all brokers", describe((BROKER, ""))),
    (
        "describe others",
        describe((METRICS, "m"), (METRICS, "none"), (GROUP, "g"), (GROUP, "none"), (BROKER, "77")),
    ),
    ("delete", delete({"name": "c"}, {"name": "zz"}, {"name": None}, {"name": "d"}, {"name": "d"})),
    ("delete, name and id", delete({"name": "a", "topic_id": b"\x07" * 16})),
    ("delete by unknown id", delete({"name": None, "topic_id": b"\x07" * 16})),
    ("create again", create(topic("c"), topic("x_y"), timeout_ms=10_000)),
    ("delete what collides", delete({"name": "x.y"})),
    ("create what collided", create(topic("x_y"), timeout_ms=10_000)),
]
