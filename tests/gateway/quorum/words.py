"""Messages and nodes of a quorum in few words, for transcripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.quorum.raft import Raft
from kwire.message import Message
from kwire.protocol import ErrorCode
from kwire.records import iter_batches

_NO_HIGH_WATERMARK = (1 << 63) - 1


def request_text(message: Any) -> str:
    """``Vote epoch=2 log=5@1``."""
    name = message.NAME.removesuffix("Request")
    return f"{name} {_REQUESTS[name](message)}".rstrip()


def answer_text(message: Any) -> str:
    """``granted``, or an error by its name, and who leads which epoch."""
    name = message.NAME.removesuffix("Response")
    if message.error_code:
        text = getattr(message, "error_message", None)
        return f"{ErrorCode(message.error_code).name} (as a whole){': ' + text if text else ''}"
    return _ANSWERS[name](message)


def node_text(raft: Raft) -> str:
    """``leader epoch=2 leader=1 voted=1 hw=5 log=0..7 epochs=1:0,2:5``."""
    log = raft.log
    epochs = ",".join(f"{epoch}:{start}" for epoch, start in log.epochs)
    unsynced = f" flushed={log.flushed}" if log.flushed != log.end_offset else ""
    leader = f" leader={raft.leader_id}" if raft.leader_id >= 0 else ""
    voted = f" voted={raft.voted_id}" if raft.voted_id >= 0 else ""
    observer = "" if raft.is_voter else " (observer)"
    return (
        f"{raft.role}{observer} epoch={raft.epoch}{leader}{voted} hw={raft.high_watermark} "
        f"log={log.start_offset}..{log.end_offset}{unsynced} epochs={epochs or 'none'}"
    )


def _vote(message: Any) -> str:
    asked = message.topics[0].partitions[0]
    kind = "pre-vote " if asked.pre_vote else ""
    return f"{kind}epoch={asked.replica_epoch} log={asked.last_offset}@{asked.last_offset_epoch}"


def _begin(message: Any) -> str:
    asked = message.topics[0].partitions[0]
    return f"leader={asked.leader_id} epoch={asked.leader_epoch}"


def _end(message: Any) -> str:
    asked = message.topics[0].partitions[0]
    successors = ",".join(str(one.candidate_id) for one in asked.preferred_candidates)
    return f"leader={asked.leader_id} epoch={asked.leader_epoch} successors={successors or 'none'}"


def _fetch(message: Any) -> str:
    asked = message.topics[0].partitions[0]
    told = "" if asked.high_watermark == _NO_HIGH_WATERMARK else f" hw={asked.high_watermark}"
    return (
        f"epoch={asked.current_leader_epoch} "
        f"from={asked.fetch_offset}@{asked.last_fetched_epoch}{told}"
    )


def _fetch_snapshot(message: Any) -> str:
    asked = message.topics[0].partitions[0]
    return f"{asked.snapshot_id.end_offset}-{asked.snapshot_id.epoch} at={asked.position}"


def _voter_key(message: Any) -> str:
    return f"voter={message.voter_id}"


_REQUESTS: dict[str, Callable[[Any], str]] = {
    "Vote": _vote,
    "BeginQuorumEpoch": _begin,
    "EndQuorumEpoch": _end,
    "Fetch": _fetch,
    "FetchSnapshot": _fetch_snapshot,
    "AddRaftVoter": _voter_key,
    "RemoveRaftVoter": _voter_key,
    "UpdateRaftVoter": _voter_key,
    "DescribeQuorum": lambda message: "",
    "ApiVersions": lambda message: "",
}


def _error(partition: Any) -> str:
    return f"{ErrorCode(partition.error_code).name} " if partition.error_code else ""


def _led(partition: Any) -> str:
    leader = f" leader={partition.leader_id}" if partition.leader_id >= 0 else ""
    return f"epoch={partition.leader_epoch}{leader}"


def _voted(message: Any) -> str:
    said = message.topics[0].partitions[0]
    return f"{_error(said) or ('granted ' if said.vote_granted else 'refused ')}{_led(said)}"


def _heard(message: Any) -> str:
    said = message.topics[0].partitions[0]
    return f"{_error(said) or 'ok '}{_led(said)}"


def _fetched(message: Any) -> str:
    said = message.responses[0].partitions[0]
    text = f"{_error(said)}{_led(said.current_leader)}"
    if said.error_code:
        return text
    text += f" hw={said.high_watermark}"
    if said.diverging_epoch.epoch >= 0:
        text += f" diverging={said.diverging_epoch.epoch}:{said.diverging_epoch.end_offset}"
    if said.snapshot_id.epoch >= 0:
        text += f" snapshot={said.snapshot_id.end_offset}-{said.snapshot_id.epoch}"
    spans = [
        f"{batch.base_offset}-{batch.last_offset}@{batch.partition_leader_epoch}"
        for batch in iter_batches(said.records)
    ]
    return text + (f" records={','.join(spans)}" if spans else "")


def _snapshot(message: Any) -> str:
    said = message.topics[0].partitions[0]
    return f"{_error(said)}{len(said.unaligned_records)} bytes at={said.position} of {said.size}"


def _described(message: Any) -> str:
    said = message.topics[0].partitions[0]
    voters = ",".join(f"{one.replica_id}:{one.log_end_offset}" for one in said.current_voters)
    observers = ",".join(f"{one.replica_id}:{one.log_end_offset}" for one in said.observers)
    return (
        f"{_error(said)}{_led(said)} hw={said.high_watermark} voters={voters or 'none'} "
        f"observers={observers or 'none'}"
    )


def _done(message: Message) -> str:
    return "ok"


_ANSWERS: dict[str, Callable[[Any], str]] = {
    "Vote": _voted,
    "BeginQuorumEpoch": _heard,
    "EndQuorumEpoch": _heard,
    "Fetch": _fetched,
    "FetchSnapshot": _snapshot,
    "DescribeQuorum": _described,
    "AddRaftVoter": _done,
    "RemoveRaftVoter": _done,
    "UpdateRaftVoter": _done,
    "ApiVersions": _done,
}
