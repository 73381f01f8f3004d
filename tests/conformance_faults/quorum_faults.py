"""The seeded faults of a metadata quorum's leader, each with the rule that is named for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kwire.conformance.quorum import OTHER_CLUSTER
from kwire.messages.fetch_response import EpochEndOffset
from kwire.protocol import ApiKey, ErrorCode
from tests.conformance_faults.changes import (
    Change,
    Row,
    each,
    error_becomes,
    faults_of,
    names_a_cluster,
    partitions,
    when,
)
from tests.conformance_faults.proxy import Changed, Fault

_RAFT: Final = (
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH,
)


def _of_another_cluster(request: Any) -> bool:
    return bool(request.cluster_id == OTHER_CLUSTER)


def _has_name(request: Any) -> bool:
    return bool(request.topics and request.topics[0].topic)


def _is_null(request: Any) -> bool:
    return request.cluster_id is None


def _pre_vote(request: Any) -> bool:
    return bool(request.topics and request.topics[0].partitions[0].pre_vote)


def _top(code: ErrorCode) -> Change:
    def change(answer: Any, request: Any) -> None:
        answer.error_code = code
        for name in ("topics", "responses"):
            if hasattr(answer, name):
                setattr(answer, name, [])

    return change


def _no_endpoints(answer: Any, request: Any) -> None:
    answer.node_endpoints = []


def _of_all() -> Iterator[Row]:
    """The faults of ``raft``, for each of its APIs."""
    wrong_cluster = ErrorCode.INCONSISTENT_CLUSTER_ID
    invalid, fenced = ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_LEADER_EPOCH
    for api in _RAFT:
        for name, rule, change in (
            ("takes another cluster", "other-cluster",
             when(_of_another_cluster, error_becomes(wrong_cluster))),
            ("takes the empty cluster", "empty-cluster", error_becomes(wrong_cluster)),
            ("wants a cluster", "null-cluster", when(_is_null, _top(wrong_cluster))),
            ("takes no topics", "no-topics", error_becomes(invalid)),
            ("takes any topic", "other-topic", error_becomes(invalid)),
            ("takes any partition", "other-partition", error_becomes(invalid)),
            ("takes a partition twice", "partition-twice", error_becomes(invalid)),
            ("takes old epochs", "old-epoch", when(names_a_cluster, error_becomes(fenced))),
            ("hides the leader", "names-leader", when(names_a_cluster, each(leader_id=-1))),
            ("hides endpoints", "names-endpoint", _no_endpoints),
        ):  # fmt: skip
            yield f"{api.title} {name}", f"raft.{api.title}.{rule}", Changed(api, change)


_NO_INVALID: Final = error_becomes(ErrorCode.INVALID_REQUEST)
_NO_OTHER_VOTER: Final = error_becomes(ErrorCode.INVALID_VOTER_KEY)
_NO_FENCING: Final = error_becomes(ErrorCode.FENCED_LEADER_EPOCH)
_GRANTED: Final = each(vote_granted=True)


def _next_epoch(answer: Any, request: Any) -> None:
    each(leader_epoch=lambda epoch: epoch + 1)(answer, request)


_VOTE: Final = tuple(faults_of(
    ApiKey.VOTE,
    ("a leader votes for another one", "vote.leader-of-the-epoch", _GRANTED),
    ("a Vote hides the epoch", "vote.names-leader", each(leader_epoch=-1)),
    ("a candidate has records of its epoch", "vote.log-of-the-epoch", _NO_INVALID),
    ("a candidate has records of a later epoch", "vote.log-of-a-later-epoch", _NO_INVALID),
    ("a candidate has a negative offset", "vote.offset-negative", _NO_INVALID),
    ("a candidate has a negative epoch", "vote.last-epoch-negative", _NO_INVALID),
    ("a candidate has a negative id", "vote.candidate-negative", _NO_INVALID),
    ("a node votes for another id", "vote.other-voter", _NO_OTHER_VOTER),
    ("a node votes for another directory", "vote.other-directory", _NO_OTHER_VOTER),
    ("a pre-vote is granted", "vote.pre-vote-refused", when(_pre_vote, _GRANTED)),
    ("a pre-vote is taken for a vote", "vote.pre-vote-log-of-the-epoch",
     when(_pre_vote, each(error_code=ErrorCode.INVALID_REQUEST))),
    ("a pre-vote raises the epoch", "vote.pre-vote-keeps-epoch", when(_pre_vote, _next_epoch)),
))  # fmt: skip

#: These cause elections, one after the other.
ELECTION_FAULTS: Final[tuple[Row, ...]] = tuple(faults_of(
    ApiKey.VOTE,
    ("a newer epoch is not taken", "vote.newer-epoch-is-taken",
     each(leader_epoch=lambda epoch: epoch - 1)),
    ("a candidate with a shorter log is elected", "vote.shorter-log", _GRANTED),
    ("a candidate of an older epoch is elected", "vote.older-last-epoch", _GRANTED),
    ("two candidates are elected", "vote.one-vote-an-epoch", _GRANTED),
))  # fmt: skip

_EPOCHS: Final = (
    *faults_of(
        ApiKey.BEGIN_QUORUM_EPOCH,
        ("a leader cannot begin again", "quorum-epochs.begin-again",
         each(error_code=ErrorCode.FENCED_LEADER_EPOCH)),
        ("a Begin again hides the leader", "quorum-epochs.begin-names-leader", each(leader_id=-1)),
        ("Begin of leader -1", "quorum-epochs.begin-leader-negative", _NO_INVALID),
        ("Begin for another node", "quorum-epochs.begin-other-voter", _NO_OTHER_VOTER),
        ("Begin for another disk", "quorum-epochs.begin-other-directory", _NO_OTHER_VOTER),
        ("Begin of an old epoch", "quorum-epochs.begin-changes-nothing", _NO_FENCING),
    ),
    *faults_of(
        ApiKey.END_QUORUM_EPOCH,
        ("End of leader -1", "quorum-epochs.end-leader-negative", _NO_INVALID),
        ("End of an old epoch", "quorum-epochs.end-changes-nothing", _NO_FENCING),
        ("End is refused", "quorum-epochs.end-at-leader",
         each(error_code=ErrorCode.INVALID_REQUEST)),
    ),
)  # fmt: skip


def _diverging(epoch: Any, end: Any) -> Change:
    def change(answer: Any, request: Any) -> None:
        for one in partitions(answer):
            found = one.diverging_epoch
            if found.end_offset >= 0:
                one.diverging_epoch = EpochEndOffset(
                    epoch=epoch(found.epoch), end_offset=end(found.end_offset)
                )

    return change


def _always_diverges(answer: Any, request: Any) -> None:
    for one in partitions(answer):
        one.diverging_epoch = EpochEndOffset(epoch=1, end_offset=0)


def _records(change: Callable[[bytes], bytes]) -> Change:
    def changed(answer: Any, request: Any) -> None:
        for one in partitions(answer):
            if one.records:
                one.records = change(bytes(one.records))

    return changed


def _drop_second_batch(data: bytes) -> bytes:
    first = 12 + int.from_bytes(data[8:12], "big")
    second = first + 12 + int.from_bytes(data[first + 8 : first + 12], "big")
    return data[:first] + data[second:]


def _epoch_at(position: int, epoch: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        at = position + 12
        return data[:at] + epoch.to_bytes(4, "big") + data[at + 4 :]

    return change


def _without_first(data: bytes) -> bytes:
    return data[12 + int.from_bytes(data[8:12], "big") :]


class _Falling:
    """A high watermark that falls from one answer to the next."""

    def __init__(self) -> None:
        self._next = 1 << 20

    def __call__(self, answer: Any, request: Any) -> None:
        self._next -= 1
        each(high_watermark=self._next)(answer, request)


def _asks_far(request: Any) -> bool:
    return bool(partitions(request)) and partitions(request)[0].fetch_offset >= 1 << 40


def _replica(number: int) -> Callable[[Any], bool]:
    return lambda request: request.replica_state.replica_id == number


def _has_offset(request: Any) -> bool:
    return names_a_cluster(request) and 0 < partitions(request)[0].fetch_offset < 1 << 40


def _session(answer: Any, request: Any) -> None:
    answer.session_id = 7


class _Late(Fault):
    """A Fetch that may wait is answered seconds too late."""

    def request(self, data: bytes) -> bytes:
        return data.replace((500).to_bytes(4, "big"), (4_500).to_bytes(4, "big"))


_FETCH: Final = tuple(faults_of(
    ApiKey.FETCH,
    ("a later epoch is taken", "replica-fetch.newer-epoch",
     error_becomes(ErrorCode.UNKNOWN_LEADER_EPOCH)),
    ("a refusal has records", "replica-fetch.refusal-has-no-records", each(records=bytes(61))),
    ("a Fetch with records hides the leader", "replica-fetch.names-leader",
     when(names_a_cluster, each(leader_epoch=-1))),
    ("Fetch takes last epoch -1", "replica-fetch.last-epoch-negative", _NO_INVALID),
    ("Fetch takes a last epoch of later", "replica-fetch.last-epoch-above", _NO_INVALID),
    ("Fetch takes offset -1", "replica-fetch.offset-negative", _NO_INVALID),
    ("Fetch takes wait -1", "replica-fetch.wait-negative", _NO_INVALID),
    ("Fetch by name is not served", "replica-fetch.by-name",
     when(_has_name, _top(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))),
    ("the diverging epoch is one too large", "replica-fetch.diverging-beyond-end",
     _diverging(lambda epoch: epoch + 1, lambda end: end)),
    ("an old epoch does not diverge", "replica-fetch.diverging-older-epoch",
     when(lambda request: not _asks_far(request), _diverging(lambda epoch: -1, lambda end: -1))),
    ("every Fetch diverges", "replica-fetch.no-divergence",
     when(lambda request: not _asks_far(request), _always_diverges)),
    ("a batch is lost", "replica-fetch.offsets-without-gaps", _records(_drop_second_batch)),
    ("a batch has epoch 9", "replica-fetch.epochs-rise", _records(_epoch_at(0, 9))),
    ("LEADER_CHANGE is lost", "replica-fetch.leader-change-first", _records(_without_first)),
    ("the high watermark falls", "replica-fetch.high-watermark", _Falling()),
    ("a Fetch of one byte has no records", "replica-fetch.whole-batches", each(records=b"")),
    ("some replicas are refused", "replica-fetch.any-replica",
     when(_replica(-2), each(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))),
    ("a Fetch begins a session", "replica-fetch.no-session", _session),
))  # fmt: skip


QUORUM_FAULTS: Final[tuple[Row, ...]] = (
    *_of_all(),
    *_VOTE,
    *_EPOCHS,
    *_FETCH,
    ("a Fetch waits too long", "replica-fetch.waits-no-longer", _Late()),
)
