"""Bugs of followers: what they fetch, where they truncate, what they take for committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from gateway.base.leader_epochs import LeaderEpochs, end_offset_for
from gateway.broker.replica.fetcher import Fetcher
from gateway.broker.replica.followed import Position, StartAt, Status, Truncate
from gateway.sources.follower_appends import FollowerAppends
from tests.patches import patched, together
from tests.sim.brokers import following, replica
from tests.sim.brokers.broker import Broker
from tests.sim.brokers.following import SourceFetcher
from tests.sim.brokers.partition_log import PartitionLog
from tests.sim.brokers.replica import Replica
from tests.sim.mutant_registry import Mutants

Context = AbstractContextManager[Any]
MUTANTS: Final = Mutants()

_follow = Replica.follow
_append = Replica.append_as_follower
_truncate_to = PartitionLog.truncate_to


# --- truncation


@MUTANTS.register("KIP-101")
def truncates_to_the_high_watermark() -> Context:
    """A follower cuts its log to its high watermark when a new leader begins, as before KIP-101."""

    def follow(self: Replica, record: Any) -> None:
        is_new = self.leader_epoch != record.leader_epoch
        _follow(self, record)
        if is_new and self.log.end_offset > self.high_watermark >= self.log.start_offset:
            self.truncate(self.high_watermark)

    return patched(Replica, follow=follow)


@MUTANTS.register("Kafka, which keeps such a log")
@contextmanager
def keeps_what_may_be_of_another_history() -> Iterator[None]:
    """A follower keeps a log of which the leader has deleted every record, and its producers."""
    step_of = Fetcher._step

    def step(self: Fetcher, one: Any, data: Any, now: float) -> Any:
        found, diverging = step_of(self, one, data, now), data.diverging_epoch
        if isinstance(found, StartAt):
            return Truncate(one, diverging.epoch, diverging.end_offset)
        return found

    with patched(Fetcher, _step=step), patched(replica, begins_anew=lambda *_: False):
        yield


@MUTANTS.register("KIP-279")
def truncates_to_the_leaders_end() -> Context:
    """A follower cuts at the end of the leader's epoch, although it has an older one there."""

    def target(epochs: Any, end: int, leaders_epoch: int, leaders_end: int) -> int:
        return min(leaders_end, end)

    return patched(following, truncation_target=target)


@MUTANTS.register("KIP-595's text")
def truncates_to_the_start_of_an_epoch() -> Context:
    """A follower cuts to the end of its epoch before the leader's, also if it has that one."""

    def target(epochs: Any, end: int, leaders_epoch: int, leaders_end: int) -> int:
        epoch, own_end = end_offset_for(epochs, leaders_epoch - 1, end)
        return min(own_end if epoch >= 0 else 0, end)

    return patched(following, truncation_target=target)


@MUTANTS.register("an obvious mistake")
def truncates_to_its_own_end_of_the_epoch() -> Context:
    """A follower keeps its epoch as a whole, where the leader's ends before."""

    def target(epochs: Any, end: int, leaders_epoch: int, leaders_end: int) -> int:
        epoch, own_end = end_offset_for(epochs, leaders_epoch, end)
        return min(own_end if epoch >= 0 else leaders_end, end)

    return patched(following, truncation_target=target)


@MUTANTS.register("KAFKA-9807")
def truncation_keeps_epochs() -> Context:
    """The epochs of records that were cut off stay in the cache."""

    def truncate_to(self: PartitionLog, offset: int) -> None:
        with patched(LeaderEpochs, truncate_from_end=lambda self, offset: None):
            _truncate_to(self, offset)

    return patched(PartitionLog, truncate_to=truncate_to)


@MUTANTS.register("broker.md 7: a truncation that acts on another task's target")
def steps_of_an_older_epoch_are_carried_out() -> Context:
    """A step that was decided under an earlier leader is carried out under the next one."""
    return patched(Fetcher, is_current=lambda self, one: True)


@MUTANTS.register("an obvious mistake")
def a_broker_that_leads_is_truncated() -> Context:
    """A step of a fetcher is carried out after the broker has become leader."""

    def carry_out(self: SourceFetcher, step: Any) -> None:
        replica = self.broker.replicas.get(step.followed.key)
        if replica is not None and replica.leader is not None and isinstance(step, Truncate):
            log = replica.log
            replica.truncate(min(step.leaders_end, log.end_offset))
            return
        original(self, step)

    def carry_out_of_server(self: FollowerAppends, step: Any) -> Any:
        epoch, self.epoch = self.epoch, step.followed.leader_epoch
        try:
            return original_of_server(self, step)
        finally:
            self.epoch = epoch

    original, original_of_server = SourceFetcher._carry_out, FollowerAppends._carry_out
    return together(
        patched(SourceFetcher, _carry_out=carry_out),
        patched(FollowerAppends, _carry_out=carry_out_of_server),
    )


# --- epochs of a follower's log


@MUTANTS.register("an obvious mistake")
def fetches_without_its_last_epoch() -> Context:
    """A Fetch does not name the epoch of the follower's last record."""

    def position(log: PartitionLog) -> Position:
        return Position(log.start_offset, log.end_offset, -1)

    return patched(following, position_of=position)


@MUTANTS.register("KIP-101")
def names_the_leaders_epoch_for_its_own() -> Context:
    """A Fetch names the epoch of the leader as that of the follower's last record."""

    follow = Fetcher.follow

    def followed(
        self: Fetcher, topic_id: Any, index: int, leader_epoch: int, position: Position
    ) -> Any:
        return follow(self, topic_id, index, leader_epoch, position._replace(epoch=leader_epoch))

    return patched(Fetcher, follow=followed)


@MUTANTS.register("broker.md 7: an epoch cache entry assigned at the wrong offset")
def epochs_begin_one_batch_late() -> Context:
    """The cache has an epoch from the end of its first batch on."""
    assign = LeaderEpochs.assign

    def late(self: LeaderEpochs, epoch: int, offset: int) -> None:
        assign(self, epoch, offset + 2)

    return patched(LeaderEpochs, assign=late)


@MUTANTS.register("KAFKA-8896")
def appended_epochs_are_not_noted() -> Context:
    """A follower does not note the epochs of what it appends."""

    def append(self: Replica, entries: Any, high_watermark: int, start: int, **more: Any) -> None:
        with patched(LeaderEpochs, assign=lambda self, epoch, offset: None):
            _append(self, entries, high_watermark, start, **more)

    return patched(Replica, append_as_follower=append)


# --- offsets and sessions


@MUTANTS.register("an obvious mistake")
def out_of_range_starts_anew() -> Context:
    """A follower whose offset is not in the leader's log throws its own away."""

    def located(self: Fetcher, one: Any, start: int, end: int) -> Any:
        return StartAt(one, start)

    return patched(Fetcher, located=located)


@MUTANTS.register("an obvious mistake")
def out_of_range_keeps_the_log() -> Context:
    """A follower behind the leader's log start goes on from its own end."""
    return patched(Fetcher, located=lambda self, one, start, end: None)


@MUTANTS.register("KIP-227")
def new_offsets_are_not_sent() -> Context:
    """A session's next request does not name a partition whose offset has moved."""

    def positioned(self: Fetcher, one: Any, position: Position) -> None:
        if self.is_current(one):
            wire = one.wire
            wire.log_start_offset, wire.fetch_offset, wire.last_fetched_epoch = position
            self._make_ready(one)

    return patched(Fetcher, positioned=positioned)


@MUTANTS.register("an obvious mistake")
def answers_count_for_partitions_that_changed() -> Context:
    """The answer to a request is appended although the partition has another position since."""
    step = Fetcher._step

    def answered(self: Fetcher, response: Any, now: float) -> Any:
        self._session.answered(response.session_id)
        steps = []
        for topic in response.responses:
            for data in topic.partitions:
                one = self._partitions.get((topic.topic_id, data.partition_index))
                found = None if one is None else step(self, one, data, now)
                if found is not None:
                    steps.append(found)
        return steps

    return patched(Fetcher, answered=answered)


@MUTANTS.register("an obvious mistake")
def one_error_stops_the_partition() -> Context:
    """A partition with an error is not fetched again."""
    return patched(Fetcher, back_off=lambda self, one, now: self._leave(one, Status.STOPPED))


@MUTANTS.register("KIP-903")
def fetches_without_its_broker_epoch() -> Context:
    """A Fetch does not name the follower's broker epoch."""
    request = Fetcher.request

    def nameless(self: Fetcher, now: float, broker_epoch: int) -> Any:
        return request(self, now, -1)

    return patched(Fetcher, request=nameless)


# --- the high watermark of a follower


@MUTANTS.register("an obvious mistake")
def follower_takes_any_high_watermark() -> Context:
    """A follower's high watermark is the leader's, also beyond its own log."""

    def append(self: Replica, entries: Any, high_watermark: int, start: int, **more: Any) -> None:
        _append(self, entries, high_watermark, start, **more)
        self._followed_high_watermark = max(self._followed_high_watermark, high_watermark)
        self.broker.world.checker.follows(self)

    return patched(Replica, append_as_follower=append)


@MUTANTS.register("an obvious mistake")
def follower_shows_its_whole_log() -> Context:
    """A follower gives consumers everything that it has."""

    def append(self: Replica, entries: Any, high_watermark: int, start: int, **more: Any) -> None:
        _append(self, entries, self.log.end_offset + 1000, start, **more)

    return patched(Replica, append_as_follower=append)


@MUTANTS.register("an obvious mistake")
def high_watermark_survives_truncation() -> Context:
    """A replica that is cut below its high watermark keeps it."""

    def truncate(self: Replica, offset: int) -> bool:
        known = self._followed_high_watermark
        found = of_replica(self, offset)
        self._followed_high_watermark = known
        self.broker.world.checker.follows(self)
        return found

    of_replica = Replica.truncate
    return patched(Replica, truncate=truncate)


@MUTANTS.register("an obvious mistake")
def a_new_leader_takes_its_log_for_committed() -> Context:
    """A replica that becomes leader takes the end of its log for the high watermark."""

    def lead(self: Replica, record: Any) -> None:
        if self.leader is None:
            self._followed_high_watermark = self.log.end_offset
        of_replica(self, record)

    of_replica = Replica.lead
    return patched(Replica, lead=lead)


# --- the broker


@MUTANTS.register("KIP-631")
def acts_on_the_image_of_its_predecessor() -> Context:
    """A broker that restarts acts on records that are older than its registration."""
    start = Broker.on_start

    def on_start(self: Broker) -> None:
        start(self)
        self.is_current = True

    return patched(Broker, on_start=on_start)


@MUTANTS.register("KIP-966")
def claims_a_clean_shutdown() -> Context:
    """A broker that lost its power reports the epoch of a clean shutdown."""
    lose = Broker.lose_power

    def lose_power(self: Broker) -> None:
        epoch = self.lifecycle.epoch
        lose(self)
        self.clean_epoch = epoch

    return patched(Broker, lose_power=lose_power)


@MUTANTS.register("an obvious mistake")
def the_end_of_a_log_is_kept_at_power_loss() -> Context:
    """After power loss the leader epochs and producers are those of the log before it."""
    lose = PartitionLog.lose_power

    def lose_power(self: PartitionLog, share: float) -> Any:
        epochs, states = self.epochs.entries, self.states
        lost = lose(self, share)
        self.epochs, self.states = LeaderEpochs(epochs), states
        return lost

    def load(self: PartitionLog) -> None:
        return

    return patched(PartitionLog, lose_power=lose_power, load_producers=load)
