"""Requests that real clients sent to Kafka 4.3.1, sent to the handlers: each item in Kafka's
response is in the response here.

The values of an item differ, since the topics differ and nothing can be changed; the items and
their shape do not.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import kwire
from gateway.handlers.context import Handler
from gateway.handlers.table import handlers
from gateway.ports.pending_response import PendingResponse
from kwire.header import decode_request_header, decode_response_header
from tests.gateway.handlers.world import World, over_the_wire
from tests.shared import SHARED, needs_shared

#: The sender of the requests: stock Java clients.
CLIENT = "admin"


def of(array: str, *members: str) -> Callable[[Any], Counter[Any]]:
    """The identities in an array of structs."""
    return lambda answer: Counter(
        tuple(getattr(one, member) for member in members) for one in getattr(answer, array)
    )


def inside(outer: str, name: str, inner: str, index: str) -> Callable[[Any], Counter[Any]]:
    """The identities (outer name, inner index) in an array of structs that hold one each."""
    return lambda answer: Counter(
        (getattr(one, name), getattr(two, index))
        for one in getattr(answer, outer)
        for two in getattr(one, inner)
    )


def quota_entities(answer: Any) -> Counter[Any]:
    return Counter(
        tuple((one.entity_type, one.entity_name) for one in entry.entity)
        for entry in answer.entries
    )


#: Api key -> what an answer is about, as something to compare.
IDENTITIES: dict[int, Callable[[Any], Counter[Any]]] = {
    0: inside("responses", "topic_id", "partition_responses", "index"),
    2: inside("topics", "name", "partitions", "partition_index"),
    19: of("topics", "name"),
    20: of("responses", "name"),
    22: lambda answer: Counter(),
    29: lambda answer: Counter(),
    30: lambda answer: Counter({"results": len(answer.results)}),
    31: lambda answer: Counter({"filters": len(answer.filter_results)}),
    32: of("results", "resource_type", "resource_name"),
    37: of("results", "name"),
    43: inside("replica_election_results", "topic", "partition_result", "partition_id"),
    44: of("responses", "resource_type", "resource_name"),
    45: inside("responses", "name", "partitions", "partition_index"),
    46: of("topics", "name"),
    48: lambda answer: Counter(),
    49: quota_entities,
    50: lambda answer: Counter(),
    51: of("results", "user"),
    55: inside("topics", "topic_name", "partitions", "partition_index"),
    57: lambda answer: Counter({"results": len(answer.results)}),
    60: lambda answer: Counter({"endpoint": answer.endpoint_type}),
    64: lambda answer: Counter(),
    75: of("topics", "name"),
}


def exchanges() -> Iterator[tuple[Handler, int, bytes, bytes]]:
    """(handler, version, request, Kafka's answer) of every exchange of a client with a broker that
    the handlers have.
    """
    asked: dict[Any, bytes] = {}
    with lzma.open(SHARED / "wire" / "public.frames.jsonl.xz", "rt", encoding="utf-8") as frames:
        for text in frames:
            line = json.loads(text)
            key = (line["scenario"], line["conn"], line.get("correlation_id"))
            handler = handlers().get(line["api_key"]) if line["direction"] != "close" else None
            if (
                handler is None
                or handler.api_key not in IDENTITIES
                or line["version"] not in handler.versions
            ):
                continue
            if line["direction"] == "req" and line["from"] == CLIENT and line["to"].startswith("b"):
                asked[key] = bytes.fromhex(line["hex"])
            elif line["direction"] == "resp" and key in asked:
                yield handler, line["version"], asked.pop(key), bytes.fromhex(line["hex"])


@needs_shared
def test_response_has_every_item_of_kafkas() -> None:
    seen: Counter[int] = Counter()
    world = World()
    for handler, version, request_bytes, kafkas in exchanges():
        key = handler.api_key
        _, at = decode_request_header(request_bytes)
        request, _ = kwire.request_type(key).decode_from(request_bytes, version, at)
        _, at = decode_response_header(key, version, kafkas)
        expected, _ = kwire.response_type(key).decode_from(kafkas, version, at)
        if getattr(expected, "error_code", 0):
            continue  # refused as a whole, for want of a right that is not wanted here
        answer = handler.handle(request, world.context(version))
        assert answer is not None and not isinstance(answer, PendingResponse)
        assert IDENTITIES[key](over_the_wire(answer, version)) == IDENTITIES[key](expected), (
            handler.name,
            request,
        )
        seen[key] += 1
    assert seen.total() > 100
    assert set(seen) >= {0, 2, 19, 20, 30, 37, 43, 44, 45, 49, 55, 75}


def test_the_table_of_identities_is_about_apis_of_the_schema() -> None:
    for key in IDENTITIES:
        assert kwire.request_type(key).VERSIONS[0] in handlers()[key].versions
