"""Rules of incremental fetch sessions (KIP-227). A server may refuse to keep sessions."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.connection import Connection
from kwire.conformance.fixtures import LATEST, fetch_request, list_offset, readable
from kwire.conformance.probe import Probe
from kwire.conformance.rule import BROKER, Changes, Family
from kwire.messages.fetch_request import FetchRequest, ForgottenTopic
from kwire.protocol import ApiKey, ErrorCode

_APIS: Final = (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA)
_KIP: Final = "KIP-227"
_VERSIONS: Final = range(7, 19)
_NO_SESSION: Final = 2147480000
FAMILY: Final = Family(
    "fetch-sessions", "Fetch sessions", roles=BROKER, apis=_APIS, changes=Changes.OWN, since="1.1"
)


def _begin(probe: Probe, offset: int | None = None) -> tuple[Connection, int, int, int]:
    """Ask for a session at the end of a partition: (connection, version, session id, offset).

    Ends the check as not applicable if the server gives none.
    """
    version = probe.need(ApiKey.FETCH, *_VERSIONS)
    where = readable(probe)
    if offset is None:
        offset = list_offset(probe, where.topic, where.index, LATEST).offset
    connection = probe.connect()
    request = fetch_request(where, offset, version, session_id=0, session_epoch=0)
    answer = probe.call(request, version, connection)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    if answer.session_id == 0:
        probe.not_applicable("the server keeps no fetch sessions")
    return connection, version, answer.session_id, offset


def _again(probe: Probe, connection: Connection, version: int, session_id: int, epoch: int) -> Any:
    request = FetchRequest(
        replica_id=-1, max_wait_ms=0, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch
    )
    return probe.call(request, version, connection)


@FAMILY.rule("full-fetch", source=_KIP, section="Fetch Session Epoch")
def full_fetch(probe: Probe) -> None:
    """A fetch with epoch 0 asks for a session: the answer has its id, or 0, and all partitions."""
    version = probe.need(ApiKey.FETCH, *_VERSIONS)
    where = readable(probe)
    request = fetch_request(where, where.start, version, session_id=0, session_epoch=0)
    answer = probe.call(request, version)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    probe.expect(answer.session_id >= 0, f"the session has id {answer.session_id}")
    found = sum(len(topic.partitions) for topic in answer.responses)
    probe.expect(found == 1, f"a full fetch of one partition is answered with {found}")


@FAMILY.rule("sessionless", source=_KIP, section="Fetch Session Epoch")
def sessionless(probe: Probe) -> None:
    """A fetch with session 0 and epoch -1 makes no session."""
    version = probe.need(ApiKey.FETCH, *_VERSIONS)
    where = readable(probe)
    request = fetch_request(where, where.start, version, session_id=0, session_epoch=-1)
    answer = probe.call(request, version)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    probe.expect(answer.session_id == 0, f"a session of id {answer.session_id} was made")


@FAMILY.rule(
    "unknown-session", source=_KIP, section="FETCH_SESSION_ID_NOT_FOUND", changes=Changes.NOTHING
)
def unknown_session(probe: Probe) -> None:
    """A session id that the server did not give has error FETCH_SESSION_ID_NOT_FOUND, and no
    partitions.
    """
    version = probe.need(ApiKey.FETCH, *_VERSIONS)
    answer = _again(probe, probe.connect(), version, _NO_SESSION, 1)
    probe.expect_error(answer.error_code, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    probe.expect(not answer.responses, "an answer with an error has partitions")


@FAMILY.rule("incremental", source=_KIP, section="Incremental Fetch Responses")
def incremental(probe: Probe) -> None:
    """An incremental fetch leaves out partitions without records and changes."""
    connection, version, session_id, _ = _begin(probe)
    answer = _again(probe, connection, version, session_id, 1)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    probe.expect(answer.session_id == session_id, f"the session has now id {answer.session_id}")
    if readable(probe).is_own:
        probe.expect(not answer.responses, "a partition without changes is in the answer")


@FAMILY.rule("incremental-with-records", source=_KIP, section="Incremental Fetch Responses")
def incremental_with_records(probe: Probe) -> None:
    """An incremental fetch that names no partition gives records of those of the session."""
    connection, version, session_id, _ = _begin(probe, readable(probe).start)
    answer = _again(probe, connection, version, session_id, 1)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    found = [one for topic in answer.responses for one in topic.partitions]
    probe.expect(len(found) == 1 and bool(found[0].records), "the records are missing")


@FAMILY.rule("epochs-count", source=_KIP, section="Fetch Session Epoch")
def epochs_count(probe: Probe) -> None:
    """Session epochs count up by one, fetch by fetch."""
    connection, version, session_id, _ = _begin(probe)
    for epoch in (1, 2, 3):
        answer = _again(probe, connection, version, session_id, epoch)
        probe.expect_error(answer.error_code, ErrorCode.NONE, where=f"epoch {epoch}")


@FAMILY.rule("wrong-epoch", source=_KIP, section="INVALID_FETCH_SESSION_EPOCH")
def wrong_epoch(probe: Probe) -> None:
    """A session epoch that is not the next one has error INVALID_FETCH_SESSION_EPOCH."""
    connection, version, session_id, _ = _begin(probe)
    answer = _again(probe, connection, version, session_id, 7)
    probe.expect_error(answer.error_code, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


@FAMILY.rule("closed-session", source=_KIP, section="Fetch Session Epoch")
def closed_session(probe: Probe) -> None:
    """A session that is closed with epoch -1 is no longer found."""
    connection, version, session_id, _ = _begin(probe)
    closing = _again(probe, connection, version, session_id, -1)
    probe.expect_error(closing.error_code, ErrorCode.NONE, where="the closing of the session")
    probe.expect(closing.session_id == 0, f"the closing is answered with {closing.session_id}")
    answer = _again(probe, connection, version, session_id, 1)
    probe.expect_error(answer.error_code, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


@FAMILY.rule("forgotten", source=_KIP, section="forgotten_topics_data")
def forgotten(probe: Probe) -> None:
    """A partition that an incremental fetch forgets is no longer in the answers."""
    where = readable(probe)
    connection, version, session_id, _ = _begin(probe, where.start)
    by_id = version >= 13
    topic = ForgottenTopic(partitions=[where.index])
    if by_id:
        topic.topic_id = where.topic_id
    else:
        topic.topic = where.topic
    request = FetchRequest(
        replica_id=-1, max_wait_ms=0, max_bytes=1 << 20, session_id=session_id, session_epoch=1,
        forgotten_topics_data=[topic],
    )  # fmt: skip
    answer = probe.call(request, version, connection)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    probe.expect(not answer.responses, "the forgotten partition is in the answer")
