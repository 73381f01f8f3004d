"""Sends captured requests of brokers and clients to kwire's controller in the state that Kafka's
was in: same errors, same records.

The state of each request is the log as far as it was sent over the wire before it.
"""

from __future__ import annotations

import json
import lzma
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pytest

from gateway.controller.controller import Controller
from gateway.controller.settings import ControllerSettings
from gateway.ports.answer_errors import errors_of
from gateway.security.principal import decode_principal
from kwire import Message, request_type, response_type
from kwire.cluster import Image, apply
from kwire.header import decode_request_header, decode_response_header
from kwire.messages.broker_registration_request import BrokerRegistrationRequest
from kwire.messages.envelope_request import EnvelopeRequest
from kwire.messages.envelope_response import EnvelopeResponse
from kwire.messages.fetch_response import FetchResponse
from kwire.records import decode_batches, decode_metadata_record
from tests.gateway.controller.cluster import whole
from tests.shared import SHARED, needs_shared

FETCH, ENVELOPE = 1, 58
#: The APIs that the controller decides on. The quorum, the image or the listener answer the others.
DECIDED: Final = {19, 20, 30, 31, 33, 37, 43, 44, 45, 46, 49, 51, 56, 57, 62, 63, 64, 67, 70, 73}
#: Errors that do not come from the controller: not the active one, no authorization, no authorizer.
ELSEWHERE: Final = frozenset({41, 29, 31, 54})
_NOT_SEEN: Final = "the last records of the log had not been sent to any node by then"
_SESSIONS: Final = "the broker had a valid session, which no log has"
#: Differences, by scenario and number of the request, with the reason.
EXPLAINED: Final = {
    "single 3": "the log was empty: its bootstrap records come first",
    "sasl 9": "the log was empty: its bootstrap records come first",
    "single 332": _SESSIONS,
    "single 342": _SESSIONS,
    "single 352": _SESSIONS,
    "extra 2216": _NOT_SEEN,
    "static3 5270": _NOT_SEEN,
    "static3 6245": "kraft.version is not upgraded by kwire's controller",
    "static3 6251": "kraft.version is not upgraded by kwire's controller",
}
#: Fields that depend on chance, the clock or a secret; and broker epochs, which are offsets of a
#: log that may have one NoOpRecord more.
_BY_CHANCE: Final = frozenset(
    (
        "topicId",
        "id",
        "salt",
        "storedKey",
        "serverKey",
        "issueTimestamp",
        "maxTimestamp",
        "expirationTimestamp",
        "tokenId",
        "replicas",
        "isr",
        "leader",
        "directories",
        "brokerEpoch",
    )
)
#: So many records of others may stand between those of a request, or before them: several were
#: asked at the same time.
_AMONG: Final = 6


class Asked(NamedTuple):
    """A request to a controller, its answer, and the log around it."""

    where: str
    api_key: int
    version: int
    request: Any
    answer: Any
    principal: str
    before: Image
    at_ms: int
    after: list[tuple[int, Message]]  #: (version, record) in the log from there on, without NoOps


@dataclass
class Seen:
    """A log as it went over the wire: epoch, version and record by offset; those of a newer epoch
    instead of others.
    """

    records: dict[int, tuple[int, int, Message]] = field(default_factory=dict)
    end: int = 0

    def take(self, data: bytes) -> None:
        """Batches of a Fetch answer."""
        for batch in decode_batches(data):
            head = batch.header
            known = self.records.get(head.base_offset)
            if known is not None and known[0] != head.partition_leader_epoch:
                self.records = {
                    offset: one for offset, one in self.records.items() if offset < head.base_offset
                }
            for record in () if head.is_control else batch.records:
                _, version, message = decode_metadata_record(record.value or b"")
                self.records[record.offset] = (head.partition_leader_epoch, version, message)
            self.end = max(self.end, head.last_offset + 1)

    def image(self) -> Image:
        """The image of the records so far."""
        made = Image()
        for _, (_, _, message) in sorted(self.records.items()):
            apply(made, message)
        made.next_offset = self.end
        return made


def lines(scenario: str) -> Iterator[dict[str, Any]]:
    with lzma.open(SHARED / "wire" / "public.frames.jsonl.xz", "rt") as text:
        for line in text:
            one = json.loads(line)
            if one.get("scenario") == scenario and "hex" in one and one["to"].startswith("c"):
                yield one


def conversation(scenario: str) -> Iterator[Asked]:
    """The requests with their responses, in the order of the responses."""
    frames = list(lines(scenario))
    seen, waiting, asked = Seen(), {}, []
    for one in frames:
        key, version = one["api_key"], one["version"]
        data = bytes.fromhex(one["hex"])
        turn = (one["conn"], one["correlation_id"])
        if one["direction"] == "req" and (key in DECIDED or key == ENVELOPE):
            waiting[turn] = (one, seen.image(), seen.end)
        elif one["direction"] == "resp" and key == FETCH:
            _, at = decode_response_header(key, version, data)
            for topic in FetchResponse.decode(data[at:], version).responses:
                for partition in topic.partitions:
                    seen.take(bytes(partition.records or b""))
        elif one["direction"] == "resp" and turn in waiting:
            asked.append((*waiting.pop(turn), data))
    for one, before, end, data in asked:
        opened = unwrapped(one, data)
        if opened is not None:
            after = [
                (version, message)
                for offset, (_, version, message) in sorted(seen.records.items())
                if offset >= end
            ]
            after = [pair for pair in after if pair[1].NAME != "NoOpRecord"]
            yield Asked(f"{scenario} {one['seq']}", *opened, before, int(one["t_ms"]), after)


def unwrapped(one: dict[str, Any], answered: bytes) -> tuple[int, int, Any, Any, str] | None:
    """Api key, version, request, answer, principal; out of an envelope if it is in one. None where
    that has no answer in it.
    """
    key, version, asked = one["api_key"], one["version"], bytes.fromhex(one["hex"])
    principal = "User:ANONYMOUS"
    if key == ENVELOPE:
        envelope = EnvelopeRequest.decode(asked[decode_request_header(asked)[1] :], 0)
        sealed = EnvelopeResponse.decode(
            answered[decode_response_header(key, version, answered)[1] :], 0
        )
        if sealed.response_data is None:
            return None
        principal = decode_principal(envelope.request_principal).name
        asked, answered = bytes(envelope.request_data), bytes(sealed.response_data)
        header, _ = decode_request_header(asked)
        key, version = header.request_api_key, header.request_api_version
        if key not in DECIDED:
            return None
    request = request_type(key).decode(asked[decode_request_header(asked)[1] :], version)
    answer = response_type(key).decode(
        answered[decode_response_header(key, version, answered)[1] :], version
    )
    return key, version, request, answer, principal


def of_ours(asked: Asked, cluster_id: str) -> tuple[Counter[int], list[tuple[int, Message]]]:
    """The errors in the response, and the records, of kwire's controller with the same log."""
    settings = ControllerSettings(1, (1,), cluster_id=cluster_id, max_idle_interval_ms=0)
    controller = Controller(settings, random=random.Random(1).randbytes)
    controller.activate(asked.before, asked.at_ms)
    decision = controller.handle(
        asked.request, asked.version, lambda *_: True, asked.at_ms, asked.principal
    )
    records = decision.operation.records if decision.operation is not None else ()
    return errors_of(whole(decision.answer)), [
        (record.version, record.message) for record in records
    ]


def comparable(version: int, record: Message) -> str:
    told = record.to_json(version)
    kept = {key: value for key, value in told.items() if key not in _BY_CHANCE}
    return f"{record.NAME} v{version} {json.dumps(kept)}"


@needs_shared
@pytest.mark.parametrize("scenario", ["single", "extra", "sasl", "static3", "dynamic3"])
def test_captured_requests_have_kafkas_errors_and_records(scenario: str) -> None:
    cluster_id, same, different = "", Counter[str](), {}
    for asked in conversation(scenario):
        if asked.api_key == BrokerRegistrationRequest.API_KEY and not cluster_id:
            cluster_id = asked.request.cluster_id
        if ELSEWHERE & errors_of(asked.answer).keys():
            continue
        errors, records = of_ours(asked, cluster_id)
        mine = Counter(comparable(*pair) for pair in records)
        kafkas = Counter(comparable(*pair) for pair in asked.after[: len(records) + _AMONG])
        if errors == errors_of(asked.answer) and mine <= kafkas:
            same[asked.request.NAME] += 1
        else:
            different[asked.where] = f"{asked.request.NAME}: {dict(errors)} {mine}\nKafka: {kafkas}"
    expected = {where for where in EXPLAINED if where.startswith(f"{scenario} ")}
    assert different.keys() == expected, "\n".join(
        different[where] for where in different.keys() - expected
    )
    assert len(same) >= 5 and same.total() > 40
