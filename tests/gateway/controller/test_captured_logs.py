"""Replays whole lives of clusters: the requests that Kafka 4.3.1's controllers got, sent to kwire's
controller from the beginning.

The responses are the same, and in the end the log is the same, record for record. Replicas are
placed where Kafka placed them, and requests name topics by the ids that they have here.
"""

from __future__ import annotations

import base64
import itertools
import json
import lzma
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

import kwire
from gateway.controller.apis import admin_keys
from kwire.header import decode_response_header
from kwire.message import Message
from kwire.records.metadata import decode_metadata_record
from tests.gateway.controller.cluster import Cluster
from tests.shared import SHARED, needs_shared

_ENVELOPE: Final = 58
#: Records that a controller writes on its own account, or while it is idle.
_BY_ITSELF: Final = ("NoOpRecord", "RegisterControllerRecord")
_TABLES: Final = ("PartitionChangeRecord", "ConfigRecord")
_KEYS: Final = frozenset(admin_keys())


@dataclass
class InFlightRequest:
    """A request and Kafka's answer to it; ``at_ms`` is when it was asked."""

    api_key: int
    version: int
    request: dict[str, Any]
    answer: Message
    at_ms: int


@dataclass
class Scenario:
    """The requests to the controllers, in order, and the part of their log that was captured."""

    exchanges: list[InFlightRequest] = field(default_factory=list)
    log: dict[int, dict[str, Any]] = field(default_factory=dict)


def read(name: str) -> Scenario:
    found, asked, answers = Scenario(), dict[Any, Any](), dict[Any, Any]()
    for line, decoded in _lines(name):
        for batch in decoded.get("records") or ():
            if not batch.get("control", True):
                found.log.update(enumerate(batch["records"], batch["baseOffset"]))
        key = (line["conn"], line["correlation_id"])
        if line["to"].startswith("c") and line["api_key"] in _KEYS | {_ENVELOPE}:
            (asked if line["direction"] == "req" else answers)[key] = (line, decoded)
    for key, (line, decoded) in asked.items():
        in_flight = _in_flight(line, decoded, answers[key][1]["body"]) if key in answers else None
        if in_flight is not None:
            found.exchanges.append(in_flight)
    return found


def _lines(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    wire = SHARED / "wire"
    with (
        lzma.open(wire / "public.frames.jsonl.xz", "rt", encoding="utf-8") as frames,
        lzma.open(wire / "public.decoded.jsonl.xz", "rt", encoding="utf-8") as decoded,
    ):
        said = {
            (one["scenario"], one["seq"]): one.get("decoded", {})
            for one in map(json.loads, decoded)
        }
        for line in map(json.loads, frames):
            if line["scenario"] == name and line["direction"] != "close":
                yield line, said.get((name, line["seq"]), {})


def _in_flight(
    line: dict[str, Any], decoded: dict[str, Any], answer: dict[str, Any]
) -> InFlightRequest | None:
    """None for what was not Kafka's own, or said to one who was not the active controller."""
    key, version, request = line["api_key"], line["version"], decoded.get("body")
    if key == _ENVELOPE:
        key, version = decoded.get("inner_api_key", -1), decoded.get("inner_version", -1)
        if answer["errorCode"] or key not in _KEYS:
            return None
        data, request = base64.b64decode(answer["responseData"]), decoded["inner"]["body"]
        told: Message = kwire.response_type(key).decode(
            data[decode_response_header(key, version, data)[1] :], version
        )
    else:
        told = kwire.response_type(key).from_json(answer, version)
    if request is None or 41 in errors(told):
        return None
    return InFlightRequest(key, version, request, told, int(line["t_ms"]))


def errors(answer: Any) -> list[int]:
    """Every error code in an answer, in order."""
    codes = [answer.error_code] if hasattr(answer, "error_code") else []
    for name in answer.__slots__:
        value = getattr(answer, name)
        if isinstance(value, list):
            codes += [code for one in value if hasattr(one, "__slots__") for code in errors(one)]
    return codes


class Replay:
    """Sends the requests of a scenario to kwire's controller, at the same moments as to Kafka's."""

    def __init__(self, scenario: Scenario, **settings: Any) -> None:
        cluster_id = next(
            one.request["clusterId"] for one in scenario.exchanges if "clusterId" in one.request
        )
        self.kwires = Cluster(cluster_id=cluster_id, **settings)
        self._scenario = scenario
        self._ids: dict[str, str] = {}  # topic ids: Kafka's -> kwire's
        self._made = Counter[str]()

    def run(self) -> Iterator[str]:
        """The differences between the responses."""
        for one in self._scenario.exchanges:
            self._pass_time(one.at_ms)
            kwires = self._ask(one)
            expected, told = _compared(one.answer), _compared(kwires)
            if expected != told:
                name = kwire.request_type(one.api_key).NAME
                yield f"{one.at_ms} {name} {one.request}: Kafka {expected}, kwire {told}"

    def _ask(self, one: InFlightRequest) -> Any:
        # As far as Kafka's log was by then, for all that is known.
        offset = one.request.get("currentMetadataOffset", -1) + 1
        self.kwires.controller.log_ends(max(offset, getattr(one.answer, "broker_epoch", -1)))
        asked = json.loads(json.dumps(one.request))
        names = [topic["name"] for topic in asked["topics"]] if one.api_key == 19 else []
        made = names and not any(errors(one.answer)) and not asked["validateOnly"]
        if made:
            for topic in asked["topics"]:
                self._put_as_kafka_did(topic)
        text = json.dumps(asked)
        for kafkas, kwires in self._ids.items():
            text = text.replace(kafkas, kwires)
        answer = self.kwires.ask(
            kwire.request_type(one.api_key).from_json(json.loads(text), one.version), one.version
        )
        for name in names:
            if made:
                kafkas = self._kafkas_topics(name)[self._made[name]]
                self._ids[kafkas] = str(self.kwires.image.topic_ids[name])
                self._made[name] += 1
        return answer

    def _kafkas_topics(self, name: str) -> list[str]:
        """The ids that Kafka gave topics of this name, one after the other."""
        written = (
            one for _, one in sorted(self._scenario.log.items()) if one["type"] == "TopicRecord"
        )
        return [one["data"]["topicId"] for one in written if one["data"]["name"] == name]

    def _put_as_kafka_did(self, topic: dict[str, Any]) -> None:
        if topic["assignments"]:
            return
        topic_id = self._kafkas_topics(topic["name"])[self._made[topic["name"]]]
        partitions = [
            one["data"]
            for _, one in sorted(self._scenario.log.items())
            if one["type"] == "PartitionRecord" and one["data"]["topicId"] == topic_id
        ][: max(1, topic["numPartitions"])]
        topic["assignments"] = [
            {"partitionIndex": one["partitionId"], "brokerIds": one["replicas"]}
            for one in partitions
        ]
        topic["numPartitions"] = topic["replicationFactor"] = -1

    def _pass_time(self, until_ms: int) -> None:
        while self.kwires.now_ms < until_ms:
            self.kwires.now_ms = min(until_ms, self.kwires.now_ms + 100)
            for operation in self.kwires.controller.poll(self.kwires.now_ms):
                self.kwires.commit(operation)


def kafkas_records(scenario: Scenario) -> Iterator[tuple[Message, int]]:
    for _, one in sorted(scenario.log.items()):
        yield kwire.message_type(one["type"]).from_json(one["data"], one["version"]), one["version"]


def our_records(kwires: Cluster) -> Iterator[tuple[Message, int]]:
    for value in kwires.log:
        _, version, message = decode_metadata_record(value)
        yield message, version


def written(records: Iterable[tuple[Message, int]]) -> list[str]:
    """The records in order, as text. Adjacent changes of partitions or of configs are sorted, as
    Kafka makes them in the order of a hash table; topics have numbers instead of ids.
    """
    topics: dict[Any, int] = {}
    found = []
    for message, version in records:
        if message.NAME not in _BY_ITSELF:
            fields = message.to_json(version)
            if "topicId" in fields:
                fields["topicId"] = topics.setdefault(fields["topicId"], len(topics))
            found.append(f"{message.NAME} v{version} {fields}")
    grouped = itertools.groupby(
        found, key=lambda one: next((kind for kind in _TABLES if one.startswith(kind)), None)
    )
    return [one for kind, group in grouped for one in (sorted(group) if kind else group)]


_THE_END: Final = 1 << 40


@dataclass(frozen=True)
class Case:
    """A scenario, the settings of kwire's controller, the APIs whose responses differ on purpose
    (with the reason), and the end.
    """

    name: str
    settings: dict[str, Any]
    deliberate: dict[str, str] = field(default_factory=dict)
    until_ms: int = _THE_END


CASES: Final = (
    Case(
        "single",
        {},
        {"CreateAclsRequest": "the handler, not the controller, refuses it without an authorizer"},
    ),
    Case(
        "extra", {"level": 25}, until_ms=110_000
    ),  # of the last half minute the heartbeats were not kept
    Case(
        "static3",
        {"nodes": (1, 2, 3)},
        {"UpdateFeaturesRequest": "kraft.version does not rise from 0 to 1 with static voters"},
    ),
    Case("dynamic3", {"nodes": (1, 2, 3), "kraft_version": 1}),
)


@needs_shared
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_controller_answers_and_writes_what_kafkas_did(case: Case) -> None:
    scenario = read(case.name)
    scenario.exchanges = [one for one in scenario.exchanges if one.at_ms < case.until_ms]
    replay = Replay(scenario, **case.settings)
    differences = list(replay.run())
    assert {one.split()[1] for one in differences} == set(case.deliberate), "\n".join(differences)
    kwires = [
        one
        for one in written(our_records(replay.kwires))
        if not one.startswith("AccessControlEntryRecord")
    ]
    expected = written(kafkas_records(scenario))
    assert kwires == (expected if case.until_ms == _THE_END else expected[: len(kwires)])
    assert len(kwires) > 50 and len(scenario.exchanges) > 50


def _compared(answer: Any) -> Any:
    """Errors in their places; of brokers all that is said."""
    if answer.NAME in (
        "BrokerRegistrationResponse",
        "BrokerHeartbeatResponse",
        "AllocateProducerIdsResponse",
    ):
        return answer
    return errors(answer)
