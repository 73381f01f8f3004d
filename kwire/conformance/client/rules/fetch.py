"""Rules of errors of Fetch: epochs, topic ids, sessions that are gone, offsets out of range."""

from __future__ import annotations

import functools
from typing import Final

from kwire.conformance.client.faults import Answer
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.client.traffic import Seen
from kwire.conformance.rule import CLIENT, Family, Level, Rule
from kwire.protocol import ApiKey, ErrorCode

#: Session epochs of a full Fetch request: of a new session, and of none.
_FULL: Final = (0, -1)
FAMILY: Final = Family("client-fetch", "Errors of Fetch")

_FETCH: Final = ApiKey.FETCH
_APIS: Final = (_FETCH,)
_UNKNOWN_ERROR: Final = 999
_SESSION: Final = 77


_OF_EPOCHS: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)


def survived(error: int, version: int, metadata: bool, probe: ClientProbe) -> None:
    """Answer the second Fetch with an error of the partition."""
    probe.uses(_FETCH, version)
    probe.prepare()
    fault = probe.fault(f"error {error}", _FETCH, error=error, when=_is_second)
    probe.start()
    seen = probe.happened(fault)
    if error in _OF_EPOCHS and _epoch(seen) < 0:
        probe.not_applicable("the client sends no leader epoch, so that none can be wrong")
    if metadata:
        probe.request_after(seen, ApiKey.METADATA)
    probe.works()


def _epoch(seen: Seen) -> int:
    return int(seen.request.topics[0].partitions[0].current_leader_epoch)


def _from(offset: int, seen: Seen) -> bool:
    """Whether a Fetch asks for this offset or a later one."""
    topics = seen.request.topics
    return any(part.fetch_offset >= offset for topic in topics for part in topic.partitions)


_is_second = functools.partial(_from, 5)
_is_third = functools.partial(_from, 10)


#: name -> (error, first version of Fetch, asks for metadata, level, source, section)
_SURVIVED: Final = {
    "unknown-topic-id": (
        ErrorCode.UNKNOWN_TOPIC_ID, 13, True, Level.MUST, "KIP-516", "Fetch", "3.1",
    ),
    "fenced-epoch": (
        ErrorCode.FENCED_LEADER_EPOCH, 9, True, Level.MUST, "KIP-320", "Fetch", "2.1",
    ),
    "unknown-epoch": (
        ErrorCode.UNKNOWN_LEADER_EPOCH, 9, False, Level.MUST, "KIP-320", "Fetch", "2.1",
    ),
    "storage-error": (
        ErrorCode.KAFKA_STORAGE_ERROR, 6, False, Level.MUST, "KIP-112", "Fetch", "1.0",
    ),
    "unknown-topic": (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 4, False, Level.SHOULD, "FetchCollector",
        "handleInitializeErrors", "0.11",
    ),
    "unknown-error": (
        _UNKNOWN_ERROR, 4, False, Level.SHOULD, "Errors", "forCode", "0.11",
    ),
}  # fmt: skip


def _add_all() -> None:
    for name, (error, version, metadata, level, source, section, since) in _SURVIVED.items():
        title = error.name if isinstance(error, ErrorCode) else "an error code that Kafka lacks"
        then = "asks for metadata and fetches again" if metadata else "fetches again"
        FAMILY.add(
            Rule(
                id=f"client-fetch.{name}",
                says=f"A client that gets {title} for a partition {then}.",
                check=functools.partial(survived, int(error), version, metadata),
                source=source,
                section=section,
                level=level,
                since=since,
                roles=CLIENT,
                apis=_APIS,
            )
        )


_add_all()


def _give_session(answer: Answer) -> None:
    answer.body.session_id = _SESSION


@FAMILY.rule(
    "session-lost", source="KIP-227", section="Error handling", since="1.1", roles=CLIENT,
    apis=_APIS,
)  # fmt: skip
def session_lost(probe: ClientProbe) -> None:
    """A client that gets FETCH_SESSION_ID_NOT_FOUND sends a full Fetch request, with session epoch
    0 or -1.
    """
    probe.uses(_FETCH, 7)
    probe.prepare()

    def lose(answer: Answer) -> None:
        answer.body.error_code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        answer.body.responses = []

    probe.fault("a session begins", _FETCH, act=_give_session)
    lost = probe.fault(
        "the session is gone", _FETCH, act=lose, when=lambda seen: seen.request.session_id > 0
    )
    probe.start()
    probe.until(lambda: len(probe.traffic.all(_FETCH)) > 1, "a second Fetch request")
    second = probe.traffic.all(_FETCH)[1]
    if second.request.session_id == 0:
        probe.works()
        return
    seen = probe.happened(lost)
    again = probe.request_after(seen, _FETCH)
    # The id counts for nothing in a full request: the broker closes that session if it has it.
    probe.expect(
        again.request.session_epoch in _FULL, "the client goes on in the session that is gone"
    )
    probe.expect(again.request.topics, "the first Fetch after the session names no partition")
    probe.works()


@FAMILY.rule(
    "offset-out-of-range", source="OffsetFetcher", section="resetPositionsIfNeeded", roles=CLIENT,
    apis=_APIS,
)  # fmt: skip
def offset_out_of_range(probe: ClientProbe) -> None:
    """A client whose offset was deleted asks for an offset to go on from, or ends with an
    error; it does not repeat the request.
    """
    probe.prepare()

    def delete(answer: Answer) -> None:
        probe.state.log.start = 20

    fault = probe.fault(
        "offsets below 20 are deleted", _FETCH, error=ErrorCode.OFFSET_OUT_OF_RANGE, act=delete,
        when=_is_second,
    )  # fmt: skip
    probe.start()
    seen = probe.happened(fault)
    probe.until(
        lambda: probe.running.status or probe.traffic.after(seen, ApiKey.LIST_OFFSETS),
        "a ListOffsets request or the end of the program",
    )
    probe.expect(
        len(probe.traffic.after(seen, _FETCH)) <= 3, "the client repeats a Fetch out of range"
    )


@FAMILY.rule(
    "position-validated", source="KIP-320", section="Consumer", since="2.3", roles=CLIENT,
    apis=_APIS, level=Level.SHOULD,
)  # fmt: skip
def position_validated(probe: ClientProbe) -> None:
    """A client that learns of a higher leader epoch asks the new leader for the end of its own
    epoch before it fetches there.
    """
    probe.uses(_FETCH, 12)
    probe.uses(ApiKey.METADATA, 7)
    probe.prepare(nodes=2)

    def act(answer: Answer) -> None:
        probe.state.move_leader(2)

    fault = probe.fault(
        "the leader has moved", _FETCH, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, act=act,
        when=_is_second,
    )  # fmt: skip
    probe.start()
    seen = probe.happened(fault)
    probe.works()
    asked = [
        one.number for one in probe.traffic.after(seen, ApiKey.OFFSET_FOR_LEADER_EPOCH)
        if one.broker == 2
    ]  # fmt: skip
    fetched = [one.number for one in probe.traffic.after(seen, _FETCH) if one.broker == 2]
    probe.expect(asked, "the client asked for the end of no epoch")
    probe.expect(asked[0] < fetched[0], "the client fetched before it asked for the end")


@FAMILY.rule(
    "log-is-truncated", source="KIP-320", section="Consumer", since="2.3", roles=CLIENT,
    apis=(_FETCH, ApiKey.METADATA), level=Level.SHOULD,
)  # fmt: skip
def log_is_truncated(probe: ClientProbe) -> None:
    """A client whose new leader has a shorter log does not fetch beyond its end: it goes back to
    the offset where the logs diverge, asks for an offset, or ends with an error.
    """
    probe.uses(_FETCH, 12)
    probe.uses(ApiKey.METADATA, 7)
    probe.prepare(nodes=2)

    def act(answer: Answer) -> None:
        state = probe.state
        with state.lock:
            del state.log.batches[1:]
            state.move_leader(2)

    fault = probe.fault(
        "the new leader has offsets below 5 only", _FETCH,
        error=ErrorCode.NOT_LEADER_OR_FOLLOWER, act=act, when=_is_third,
    )  # fmt: skip
    probe.start()
    seen = probe.happened(fault)

    def reset() -> bool:
        back = any(
            partition.fetch_offset <= 5
            for one, partition in probe.traffic.partitions(_FETCH)
            if one.number > seen.number
        )
        return back or bool(probe.traffic.after(seen, ApiKey.LIST_OFFSETS) or probe.running.status)

    probe.until(reset, "a Fetch request from offset 5, a ListOffsets request, or the end")
