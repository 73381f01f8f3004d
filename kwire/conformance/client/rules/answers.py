"""Rules of the bytes of answers: segments, unknown tagged fields, sizes and correlation ids."""

from __future__ import annotations

from typing import Final

from kwire.conformance.client.faults import (
    EVER,
    UNKNOWN_TAG,
    Answer,
    byte_by_byte,
    later,
)
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.client.traffic import fetch_offset
from kwire.conformance.rule import CLIENT, Family
from kwire.frame import frame
from kwire.message import Message
from kwire.protocol import ApiKey
from kwire.structs import Struct

FAMILY: Final = Family("client-answers", "Bytes of answers")

#: How long a check watches a client that may do nothing, s.
_WATCHED_S: Final = 2.0
_TAG: Final = (UNKNOWN_TAG, b"kwire")


@FAMILY.rule("split-every-byte", source="NetworkReceive", section="readFrom", roles=CLIENT)
def split_every_byte(probe: ClientProbe) -> None:
    """A client reads answers that come with each byte in a TCP segment of its own."""
    probe.prepare()
    probe.fault("each byte in a segment of its own", act=byte_by_byte, times=EVER)
    probe.start()
    probe.works()


@FAMILY.rule("slow", source="NetworkClient", section="handleTimedOutRequests", roles=CLIENT)
def slow(probe: ClientProbe) -> None:
    """A client waits for answers that come 200 ms later, and asks for nothing twice."""
    probe.prepare()
    probe.fault("200 ms later", act=later(0.2), times=EVER)
    probe.start()
    probe.works()


def _header_tag(answer: Answer) -> None:
    answer.add_header_tag()


@FAMILY.rule(
    "unknown-tags-in-header", source="KIP-482", section="Tagged Fields", since="2.4", roles=CLIENT
)
def unknown_tags_in_header(probe: ClientProbe) -> None:
    """A client ignores an unknown tagged field in the header of every flexible answer."""
    probe.prepare()
    probe.fault("an unknown tagged field in the header", act=_header_tag, times=EVER)
    probe.start()
    probe.works()


def _is_flexible(answer: Answer) -> bool:
    body: Message = answer.body
    return answer.version() in body.FLEXIBLE_VERSIONS


def _body_tag(answer: Answer) -> None:
    if _is_flexible(answer):
        answer.body.unknown_tags = [_TAG]


@FAMILY.rule(
    "unknown-tags-in-body", source="KIP-482", section="Tagged Fields", since="2.4", roles=CLIENT
)
def unknown_tags_in_body(probe: ClientProbe) -> None:
    """A client ignores an unknown tagged field at the end of every flexible answer."""
    probe.prepare()
    probe.fault("an unknown tagged field in the body", act=_body_tag, times=EVER)
    probe.start()
    probe.works()


def _tag_structs(value: Struct) -> None:
    for field in value.fields():
        part = getattr(value, field.attr)
        if field.is_struct and field.array:
            for one in part or ():
                one.unknown_tags = [_TAG]
                _tag_structs(one)


def _struct_tags(answer: Answer) -> None:
    if _is_flexible(answer):
        _tag_structs(answer.body)


@FAMILY.rule(
    "unknown-tags-in-structs", source="KIP-482", section="Tagged Fields", since="2.4", roles=CLIENT
)
def unknown_tags_in_structs(probe: ClientProbe) -> None:
    """A client ignores an unknown tagged field in every element of the arrays of flexible
    answers.
    """
    probe.prepare()
    probe.fault("unknown tagged fields in structs", act=_struct_tags, times=EVER)
    probe.start()
    probe.works()


def _negative_size(answer: Answer) -> None:
    answer.data = b"\xff\xff\xff\xfe" + answer.encoded()[4:]


@FAMILY.rule("negative-size", source="NetworkReceive", section="readFrom", roles=CLIENT)
def negative_size(probe: ClientProbe) -> None:
    """A client closes a connection on which an answer has a negative size, and goes on with
    another one or ends with an error.
    """
    probe.prepare()
    fault = probe.fault("the size is -2", probe.data_api, act=_negative_size)
    probe.start()
    link = probe.happened(fault).link
    probe.until(
        lambda: link.closed_at is not None or probe.running.status,
        "the end of the connection or of the program",
    )
    probe.works_or_ends()


def _other_id(answer: Answer) -> None:
    number = answer.seen.correlation_id ^ 0x55555555
    answer.data = frame(number.to_bytes(4, "big"), answer.encoded()[8:])


@FAMILY.rule("other-correlation-id", source="NetworkClient", section="parseResponse", roles=CLIENT)
def other_correlation_id(probe: ClientProbe) -> None:
    """A client does not take an answer with a correlation id of no request for the answer to its
    request: it closes the connection, ends with an error, or waits.
    """
    probe.prepare()
    fault = probe.fault("another correlation id", probe.data_api, act=_other_id)
    probe.start()
    seen = probe.happened(fault)
    probe.during(_WATCHED_S)
    later = [one for one in probe.traffic.after(seen, probe.data_api) if one.broker == seen.broker]
    if probe.data_api is ApiKey.PRODUCE:
        done = probe.running.status == 0 and not later
        probe.expect(not done, "the program takes its records for written")
        return
    offsets = [offset for one in later if (offset := fetch_offset(one)) >= 0]
    beyond = offsets and offsets[0] > fetch_offset(seen)
    probe.expect(not beyond, "the client takes the records of the answer for those it asked for")
