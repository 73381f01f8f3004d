"""Bugs to be put into the observer one at a time: what the simulation is worth is how many of them it finds.

Each is a change that a tired person could make, most of them known from Kafka's own history or from the text of KIP-595.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from gateway.quorum import Advance, Append, Remember, Truncate, answers, introduction, replica, requests
from gateway.quorum.download import Download
from gateway.quorum.leader import Leadership, Said
from gateway.quorum.observer import Observer
from gateway.quorum.pacing import Pacing
from gateway.quorum.replica import Replica
from gateway.quorum.requests import Position

Mutant = Callable[[], contextlib.AbstractContextManager[Any]]
MUTANTS: dict[str, Mutant] = {}


def mutant(make: Mutant) -> Mutant:
    MUTANTS[make.__name__] = make
    return make


def _patched(owner: Any, name: str, new: Any) -> Any:
    return mock.patch.object(owner, name, new)


@mutant
def late_answers_count() -> Any:
    """Answers are matched with no request."""

    def is_open(self: Observer, ask: Any) -> bool:
        self._replica.performed()
        return self._stopped is None

    return _patched(Observer, "_is_open", is_open)


@mutant
def old_epochs_are_believed() -> Any:
    """A node that is behind may name a leader of its epoch."""
    hear = Leadership.hear

    def believed(self: Leadership, asked: Any, said: Said) -> Any:
        return hear(self, asked, said._replace(epoch=max(said.epoch, self.epoch)))

    return _patched(Leadership, "hear", believed)


@mutant
def epochs_are_not_remembered() -> Any:
    """quorum-state is never written."""
    return _changed_effects(lambda effects: [effect for effect in effects if not isinstance(effect, Remember)])


@mutant
def leader_of_the_last_epoch_stays() -> Any:
    """A new epoch without a leader keeps the old one's."""

    def lead(self: Leadership, epoch: int, leader_id: int) -> None:
        self.epoch, self.leader_id = epoch, leader_id if leader_id >= 0 else self.leader_id

    return _patched(Leadership, "_lead", lead)


@mutant
def high_watermark_beyond_the_log() -> Any:
    """The leader's high watermark is taken as ours before we have the records."""

    def believe(self: Replica, batches: Any, told: int) -> Any:
        effects = proceed(self, batches, told)
        if told > self.high_watermark:
            self.high_watermark = told
            return [*[effect for effect in effects if not isinstance(effect, Advance)], Advance(told)]
        return effects

    proceed = Replica._continue
    return _patched(Replica, "_continue", believe)


@mutant
def high_watermark_follows_the_leader_down() -> Any:
    """A new leader, which does not know it yet, tells a lower one (KAFKA-12460)."""

    def follow(self: Replica, batches: Any, told: int) -> Any:
        effects = proceed(self, batches, told)
        if told < self.high_watermark:
            self.high_watermark = max(0, told)
            return [*effects, Advance(self.high_watermark)]
        return effects

    proceed = Replica._continue
    return _patched(Replica, "_continue", follow)


@mutant
def high_watermark_before_the_logs_agree() -> Any:
    """An answer that says that the logs differ moves the high watermark all the same."""

    def take(self: Replica, partition: Any, leader: str, epoch: int) -> Any:
        effects = really(self, partition, leader, epoch)
        reached = min(partition.high_watermark, self._log.end_offset)
        if partition.diverging_epoch.epoch >= 0 and reached > self.high_watermark:
            self.high_watermark = reached
            return [Advance(reached), *effects]
        return effects

    really = Replica.take
    return _patched(Replica, "take", take)


@mutant
def everything_in_the_log_is_committed() -> Any:
    """What the leader gives is shown at once."""

    def proceed(self: Replica, batches: Any, told: int) -> Any:
        return really(self, batches, batches.end.offset if batches else told)

    really = Replica._continue
    return _patched(Replica, "_continue", proceed)


@mutant
def high_watermark_forgotten_at_birth() -> Any:
    """A restart begins with the high watermark at 0."""
    born = Replica.__init__
    return _patched(Replica, "__init__", lambda self, log, high_watermark, history: born(self, log, 0, history=history))


@mutant
def high_watermark_kept_when_the_log_refuses() -> Any:
    """Batches with a wrong CRC move the high watermark over themselves."""

    def rejected(self: Replica) -> Any:
        self._awaited = None
        return self.abandon()

    return _patched(Replica, "rejected", rejected)


@mutant
def epoch_not_remembered_again() -> Any:
    """When the disk fails, nobody asks whether it was at the epoch."""
    rejected = Observer.rejected

    def quietly(self: Observer, reason: str, now: float) -> Any:
        return [effect for effect in rejected(self, reason, now) if not isinstance(effect, Remember)]

    return _patched(Observer, "rejected", quietly)


@mutant
def advance_before_append() -> Any:
    """The high watermark is shown before the records are written."""
    return _changed_effects(lambda effects: sorted(effects, key=lambda effect: not isinstance(effect, Advance)))


@mutant
def divergence_by_the_letter_of_the_kip() -> Any:
    """KIP-595 says "largest epoch less than": that throws away an epoch that both logs have."""

    def offset(log: Any, leaders: Position) -> int:
        ours: int = max(log.end_offset_for_epoch(leaders.epoch - 1)[1], log.start_offset)
        return min(ours, leaders.offset)

    return _patched(replica, "truncation_offset", offset)


@mutant
def divergence_to_our_own_end_only() -> Any:
    """The end of the epoch on the leader is left out of account."""

    def offset(log: Any, leaders: Position) -> int:
        ours: int = log.end_offset if leaders.epoch >= log.last_epoch else log.end_offset_for_epoch(leaders.epoch)[1]
        return ours

    return _patched(replica, "truncation_offset", offset)


@mutant
def divergence_to_the_leaders_end_only() -> Any:
    """Our own epochs are left out of account."""
    return _patched(replica, "truncation_offset", lambda log, leaders: min(log.end_offset, leaders.offset))


@mutant
def divergence_back_to_the_high_watermark() -> Any:
    """Truncation one record too far: below what is shown."""
    truncate = Truncate
    return _patched(replica, "Truncate", lambda offset: truncate(max(0, offset - 1)))


@mutant
def divergence_is_no_news() -> Any:
    """DivergingEpoch is not looked at."""
    return _patched(answers, "given_divergence", lambda partition: None)


@mutant
def last_fetched_epoch_of_the_leader() -> Any:
    """A Fetch claims that the log ends in the leader's epoch: then the leader cannot see that it differs."""
    fetch = requests.fetch

    def claim(version: int, identity: Any, settings: Any, *, epoch: int, position: Position, high_watermark: int) -> Any:
        claimed = Position(position.offset, epoch)
        return fetch(version, identity, settings, epoch=epoch, position=claimed, high_watermark=high_watermark)

    return _patched(requests, "fetch", claim)


@mutant
def high_watermark_minus_one_is_told() -> Any:
    """The tag of KIP-1166 with -1: the leader answers at once, for ever."""
    return _patched(requests, "_NO_HIGH_WATERMARK", -1)


@mutant
def snapshot_goes_on_at_another_leader() -> Any:
    """A new epoch does not end a download, though no two nodes write the same bytes."""

    def abandon(self: Replica) -> Any:
        self._history = None
        return []

    return _patched(Replica, "abandon", abandon)


@mutant
def snapshot_asked_one_more_time() -> Any:
    """A snapshot counts as whole only when an answer has no more bytes; the leader calls position = size an error."""
    return _patched(Download, "complete", property(lambda self: False))


@mutant
def snapshot_installed_by_its_first_chunk() -> Any:
    """One answer counts as the whole."""
    return _patched(Download, "complete", property(lambda self: self.position > 0))


@mutant
def snapshot_chunks_wherever() -> Any:
    """The position of a chunk is counted twice."""
    take = Download.take

    def shifted(self: Download, partition: Any) -> Any:
        chunk = take(self, partition)
        return replace(chunk, position=chunk.position + len(chunk.data)) if chunk and chunk.position else chunk

    return _patched(Download, "take", shifted)


@mutant
def no_back_off() -> Any:
    """A fruitless request is repeated at once."""

    def at_once(self: Pacing, now: float, at_least: float = 0.0) -> None:
        self.not_before = max(self.not_before, now + at_least)

    return _patched(Pacing, "fruitless", at_once)


@mutant
def back_off_begins_anew() -> Any:
    """Every failure is the first."""
    fruitless = Pacing.fruitless

    def first(self: Pacing, now: float, at_least: float = 0.0) -> None:
        self._backoff.progress()
        fruitless(self, now, at_least)

    return _patched(Pacing, "fruitless", first)


@mutant
def resigned_leader_is_obeyed_at_once() -> Any:
    """NOT_LEADER with a leader in it resets the pause, even when that leader is the one who refuses."""
    heard = Observer._heard

    def obey(self: Observer, ask: Any, said: Said, *rest: Any) -> Any:
        effects = heard(self, ask, said, *rest)
        if said.error and said.leader_id >= 0 and said.epoch == self._leadership.epoch:
            self._pacing._backoff.progress()
            self._pacing.not_before = 0.0
        return effects

    return _patched(Observer, "_heard", obey)


@mutant
def dead_leader_is_asked_for_ever() -> Any:
    """Nobody else is asked while a leader is known."""
    return _patched(Leadership, "doubt", lambda self, asked: None)


@mutant
def others_are_asked_for_ever() -> Any:
    """Once somebody was of no help, the leader is never asked again: the first version of this code did that."""

    def doubt(self: Leadership, asked: Any) -> None:
        self._detour = True

    return _patched(Leadership, "doubt", doubt)


@mutant
def history_without_a_look_at_it() -> Any:
    """Whatever comes for offset 1 is appended to the empty log."""

    def take(self: Replica, partition: Any, *rest: Any) -> Any:
        self._await()
        return [Append(partition.records)]

    return _patched(Replica, "_take_history", take)


@mutant
def replica_id_before_the_voters_are_known() -> Any:
    """The replica id is used at once, even a voter's."""

    def identity(self: introduction.Introduction) -> requests.Identity:
        return requests.Identity(self.cluster_id, self._settings.replica_id, self._settings.directory_id)

    return _patched(introduction.Introduction, "identity", property(identity))


def _changed_effects(change: Callable[[list[Any]], list[Any]]) -> Any:
    answered = Observer.answered
    return _patched(Observer, "answered", lambda self, *given: change(answered(self, *given)))


@contextlib.contextmanager
def put_in(name: str) -> Iterator[None]:
    """The observer with one bug in it."""
    with MUTANTS[name]():
        yield
