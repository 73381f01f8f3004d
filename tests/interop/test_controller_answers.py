"""Kafka's controller, through a broker, and kwire's give the same errors and results for the
same requests.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from kwire.message import Message
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.controller_requests import REQUESTS
from tests.waiting import until
from tools.gateway_process import gateway
from tools.kafka import kafka
from tools.wire_client import WireClient

#: kwire's values where they differ from Kafka's on purpose, and the reason.
DELIBERATE: Final = {
    "describe topics: .results[4].says why": (
        "a sentence for a topic that does not exist, where Kafka has none"
    ),
}
#: Fields that differ between any two clusters, or hold kwire's own sentences.
_NOT_COMPARED: Final = frozenset({"topicId", "errorMessage", "documentation", "throttleTimeMs"})


def comparable(value: Any) -> Any:
    """An answer without what no two servers say alike, its items in an order of their own."""
    if isinstance(value, dict):
        told = {key: comparable(inner) for key, inner in value.items() if key not in _NOT_COMPARED}
        if "errorMessage" in value:
            told["says why"] = bool(value["errorMessage"])
        return told
    if isinstance(value, list):
        return sorted((comparable(one) for one in value), key=repr)
    return value


def ask(client: WireClient, request: Message) -> Any:
    version = type(request).VERSIONS[-1]
    return comparable(client.call(request, version).to_json(version))


def unlike(expected: Any, answer: Any, where: str = "") -> Iterator[str]:
    """Where the two differ, and in what."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        for key in expected.keys() | answer.keys():
            yield from unlike(expected.get(key), answer.get(key), f"{where}.{key}")
    elif isinstance(expected, list) and isinstance(answer, list) and len(expected) == len(answer):
        for index, pair in enumerate(zip(expected, answer, strict=True)):
            yield from unlike(*pair, f"{where}[{index}]")
    elif expected != answer:
        yield f"{where}: Kafka {expected}, kwire {answer}"


def agreed(
    about: str,
    request: Message,
    real: WireClient,
    kwires: WireClient,
    deliberate: Collection[str] = (),
) -> list[str]:
    """Where the answers to a question differ: in deliberate places alone. It is asked again until
    then, as what was changed last may not have reached a node that is asked.
    """
    return until(
        lambda: [f"{about}: {one}" for one in unlike(ask(real, request), ask(kwires, request))],
        f"{about}: the same answer",
        lambda found: all(one.partition(": Kafka ")[0] in deliberate for one in found),
    )


def test_requests_get_the_responses_of_kafka(tmp_path: Path) -> None:
    need_java()
    differences = []
    with (
        kafka(version="4.4.0") as cluster,
        gateway("--process-roles", "controller", "--data-dir", str(tmp_path)) as server,
        WireClient(cluster.bootstrap) as real,
        WireClient(server.bootstrap) as kwires,
    ):
        for about, request in REQUESTS:
            asks = request.NAME == "DescribeConfigsRequest"
            if asks:
                time.sleep(1)  # a broker is told of what its controller did when that is committed
                differences += agreed(about, request, real, kwires, DELIBERATE)
            else:
                unequal = unlike(ask(real, request), ask(kwires, request))
                differences += [f"{about}: {one}" for one in unequal]
    FIGURES.append(
        f"controllers: {len(REQUESTS)} requests, the same answers but for {len(DELIBERATE)} on "
        "purpose"
    )
    found = {one.partition(": Kafka ")[0]: one for one in differences}
    assert found.keys() == DELIBERATE.keys(), "\n".join(
        found[place] for place in found if place not in DELIBERATE
    )
