"""Bugs of an observer in divergence, truncation and snapshots, one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.quorum import (
    following,
    node,
    requests,
    response_checks,
)
from gateway.quorum.download import Download
from gateway.quorum.effects import Truncate
from gateway.quorum.node import Node
from gateway.quorum.partition import Position
from gateway.quorum.roles import Follower
from tests.gateway.quorum.observer.mutants import mutant, patched


@mutant
def divergence_by_the_letter_of_the_kip() -> Any:
    """KIP-595 says "largest epoch less than": that throws away an epoch that both logs have."""

    def offset(log: Any, leaders: Position) -> int:
        local: int = max(log.end_offset_for_epoch(leaders.epoch - 1)[1], log.start_offset)
        return min(local, leaders.offset)

    return patched(following, "truncation_offset", offset)


@mutant
def divergence_to_the_local_end_only() -> Any:
    """The end of the epoch on the leader is left out of account."""

    def offset(log: Any, leaders: Position) -> int:
        local: int = (
            log.end_offset
            if leaders.epoch >= log.last_epoch
            else log.end_offset_for_epoch(leaders.epoch)[1]
        )
        return local

    return patched(following, "truncation_offset", offset)


@mutant
def divergence_to_the_leaders_end_only() -> Any:
    """The local epochs are left out of account."""
    return patched(
        following, "truncation_offset", lambda log, leaders: min(log.end_offset, leaders.offset)
    )


@mutant
def divergence_back_to_the_high_watermark() -> Any:
    """Truncation one record too far: below what is shown."""
    truncate = Truncate
    return patched(node, "Truncate", lambda token, offset: truncate(token, max(0, offset - 1)))


@mutant
def divergence_is_no_news() -> Any:
    """DivergingEpoch is not looked at."""
    return patched(response_checks, "given_divergence", lambda partition: None)


@mutant
def last_fetched_epoch_of_the_leader() -> Any:
    """A Fetch claims that the log ends in the leader's epoch: then the leader cannot see that it
    differs.
    """
    fetch = requests.fetch

    def claim(version: int, *, epoch: int, log_end: Position, **more: Any) -> Any:
        return fetch(version, epoch=epoch, log_end=Position(log_end.offset, epoch), **more)

    return patched(requests, "fetch", claim)


@mutant
def high_watermark_minus_one_is_told() -> Any:
    """The tag of KIP-1166 with -1: the leader answers at once, for ever."""
    return patched(requests, "_NO_HIGH_WATERMARK", -1)


@mutant
def snapshot_goes_on_at_another_leader() -> Any:
    """A new epoch does not end a download, though no two nodes write the same bytes."""
    become = Node.become_follower

    def keep(self: Node, *given: Any, **more: Any) -> None:
        was = self.role
        download = was.download if isinstance(was, Follower) else None
        if isinstance(was, Follower):
            was.download = None
        become(self, *given, **more)
        assert isinstance(self.role, Follower)
        self.role.download = download

    return patched(Node, "become_follower", keep)


@mutant
def snapshot_asked_one_more_time() -> Any:
    """A snapshot counts as whole only when a response has no more bytes; the leader calls position
    = size an error.
    """
    return patched(Download, "complete", property(lambda self: False))


@mutant
def snapshot_installed_by_its_first_chunk() -> Any:
    """One response counts as the whole."""
    return patched(Download, "complete", property(lambda self: self.position > 0))


@mutant
def snapshot_chunks_wherever() -> Any:
    """The position of a chunk is counted twice."""
    take = Download.take

    def shifted(self: Download, partition: Any, next_token: Any) -> Any:
        chunk = take(self, partition, next_token)
        return (
            replace(chunk, position=chunk.position + len(chunk.data))
            if chunk and chunk.position
            else chunk
        )

    return patched(Download, "take", shifted)
