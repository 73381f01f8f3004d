"""Offsets that are committed in transactions: pending until the marker, then committed or gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.groups import Answer, EventTime, GroupCoordinator, Persist, Settings
from gateway.groups import events as e
from gateway.groups.events import Committed
from gateway.groups.group import State
from gateway.groups.pending_offsets import PendingRecord
from gateway.groups.records import group_record, offset_record
from kwire.errors import DecodeError
from kwire.protocol import ErrorCode

HOUR_MS = 3_600_000


class World:
    """A coordinator, and the newest records of what it wrote: with those of open transactions."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(initial_rebalance_delay_ms=0, **settings)
        self.core = GroupCoordinator(self.settings)
        self.core.load([], EventTime(0.0, 0))
        self.now_ms = 0
        self.persisted: list[Persist] = []

    def ask(self, event: e.Event) -> Any:
        moment = EventTime(self.now_ms / 1000, self.now_ms)
        return self._result(self.core.handle(event, None, moment))

    def _result(self, effects: Sequence[Any]) -> Any:
        self.persisted += [one for one in effects if isinstance(one, Persist)]
        (answer,) = [one for one in effects if isinstance(one, Answer)]
        return answer.result

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        effects = self.core.on_timer(EventTime(self.now_ms / 1000, self.now_ms))
        self.persisted += [one for one in effects if isinstance(one, Persist)]

    def commit(self, offset: int, *, group: str = "g", topic: str = "t", meta: str = "") -> Any:
        wanted = (e.OffsetToCommit(topic, 0, offset, -1, meta),)
        return self.ask(
            e.OffsetCommit(
                group_id=group,
                member_id="",
                instance_id=None,
                generation=-1,
                retention_ms=-1,
                offsets=wanted,
                knows_group_id_not_found=True,
                owner="u",
            )
        ).errors[0]

    def commit_in(
        self, producer: int, offset: int, *, group: str = "g", topic: str = "t", **more: Any
    ) -> ErrorCode:
        event = e.TxnOffsetCommit(
            group_id=group,
            member_id=more.pop("member_id", ""),
            instance_id=None,
            generation=more.pop("generation", -1),
            offsets=(e.OffsetToCommit(topic, 0, offset, -1, more.pop("meta", "")),),
            producer_id=producer,
            producer_epoch=3,
            owner="u",
        )
        (error,) = self.ask(event).errors
        assert isinstance(error, ErrorCode)
        return error

    def end(self, producer: int, *, committed: bool) -> None:
        self.ask(e.CompleteTransaction(producer, committed))

    def fetch(self, group: str = "g", *, stable: bool = False) -> dict[str, int | None]:
        """Offset by topic; None for one that is not stable."""
        (found,) = self.ask(e.OffsetFetch(((group, None),), require_stable=stable)).groups
        return {
            where[0]: None if where in found.unstable else committed.offset
            for where, committed in found.offsets
        }


def test_offset_counts_when_its_transaction_commits() -> None:
    world = World()
    assert world.commit(1) is ErrorCode.NONE
    assert world.commit_in(7, 5) is ErrorCode.NONE
    assert world.commit_in(7, 6) is ErrorCode.NONE
    assert world.persisted[-1].producer == (7, 3)
    assert world.fetch() == {"t": 1}
    assert world.fetch(stable=True) == {"t": None}
    world.end(7, committed=True)
    assert world.fetch(stable=True) == {"t": 6}


def test_offset_of_a_transaction_that_aborts_is_dropped_with_its_memory() -> None:
    world = World()
    world.commit(1)
    before = world.core.usage.bytes
    world.commit_in(7, 5)
    assert world.core.usage.bytes > before
    world.end(7, committed=False)
    world.end(8, committed=True)  # a producer without offsets
    assert world.fetch(stable=True) == {"t": 1}
    assert world.core.usage.bytes == before


def test_newest_commit_counts_in_a_transaction_or_not() -> None:
    world = World()
    world.commit_in(7, 5)
    world.commit_in(8, 6)
    world.end(8, committed=True)
    world.end(7, committed=True)
    assert world.fetch() == {"t": 6}
    world.commit_in(7, 8)
    world.commit(9)
    world.end(7, committed=True)
    assert world.fetch() == {"t": 9}


def test_group_with_pending_offsets_alone_stays_until_the_marker() -> None:
    world = World(offsets_retention_ms=HOUR_MS, retention_check_interval_ms=HOUR_MS)
    world.commit_in(7, 5)
    world.pass_time(10 * HOUR_MS)
    assert "g" in world.core.groups
    world.end(7, committed=False)
    world.pass_time(10 * HOUR_MS)
    assert not world.core.groups


def test_offset_does_not_expire_while_a_transaction_is_about_to_replace_it() -> None:
    world = World(offsets_retention_ms=HOUR_MS, retention_check_interval_ms=HOUR_MS)
    world.commit(1)
    world.commit_in(7, 5)
    world.pass_time(10 * HOUR_MS)
    assert world.fetch() == {"t": 1}


def test_deleted_group_takes_its_pending_offsets_with_it() -> None:
    world = World()
    world.commit(1)
    world.commit_in(7, 5)
    world.commit_in(7, 5, topic="u")
    world.commit_in(7, 5, group="other")
    assert world.ask(e.DeleteGroups(("g",))).errors == [ErrorCode.NONE]
    tombstones = world.persisted[-1]
    assert len(tombstones.records) == 2 and tombstones.producer is None
    world.end(7, committed=True)
    assert world.core.groups.keys() == {"other"}
    assert world.fetch("other") == {"t": 5}


def test_deleted_offset_takes_what_is_pending_with_it() -> None:
    world = World()
    world.commit_in(7, 5)
    deleted = world.ask(e.OffsetDelete(group_id="g", partitions=(("t", 0), ("u", 0))))
    assert deleted.errors == [ErrorCode.NONE, ErrorCode.NONE]
    assert [value for _, value in world.persisted[-1].records] == [None]
    world.end(7, committed=True)
    assert world.fetch() == {}


def test_faults_of_a_commit_are_those_of_kafka() -> None:
    world = World(offset_metadata_max=4)
    assert world.commit_in(7, 5, generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert world.commit_in(7, 5, meta="12345") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert not world.core.groups
    world.commit(1)
    group = world.core.groups["g"]
    group.state = State.COMPLETING_REBALANCE
    # A client that names no member may commit to a group with members.
    assert world.commit_in(7, 5) is ErrorCode.NONE
    assert world.commit_in(7, 5, member_id="m", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_limits_count_what_is_pending_beside_what_it_replaces() -> None:
    world = World(bytes_max_per_group=2_000, bytes_reserved_per_group=0)
    world.commit(1)
    assert world.commit_in(1, 5) is ErrorCode.NONE
    assert world.commit_in(2, 5) is ErrorCode.NONE
    assert world.commit_in(3, 5) is ErrorCode.POLICY_VIOLATION
    assert world.commit_in(2, 6) is ErrorCode.NONE
    world.end(1, committed=False)
    assert world.commit_in(3, 5) is ErrorCode.NONE


def test_pending_record_that_cannot_be_read_fails_the_load() -> None:
    core = GroupCoordinator(Settings())
    with pytest.raises(DecodeError):
        core.load([], EventTime(0.0, 0), {}, [PendingRecord(7, b"\0\1", b"\0\3")])


def test_pending_record_that_is_no_offset_is_passed_over() -> None:
    world = World()
    world.commit(1)
    key, value = group_record(world.core.groups["g"])
    assert value is not None
    core = GroupCoordinator(Settings())
    core.load([], EventTime(0.0, 0), {}, [PendingRecord(7, key, value)])
    assert not core.groups


_TOPICS = st.sampled_from("tu")
_PRODUCERS = st.sampled_from([1, 2])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), _TOPICS),
        st.tuples(st.just("in"), _TOPICS, _PRODUCERS),
        st.tuples(st.just("end"), _PRODUCERS, st.booleans()),
        st.tuples(st.just("delete"), _TOPICS),
        st.tuples(st.just("delete group")),
    ),
    max_size=20,
)


class Log:
    """The records of a coordinator, folded: what counts, and what is pending of each producer."""

    def __init__(self) -> None:
        self.newest: dict[bytes, tuple[int, bytes]] = {}
        self.pending: dict[int, dict[bytes, tuple[int, bytes]]] = {}

    def end(self, producer: int, *, committed: bool) -> None:
        for key, found in self.pending.pop(producer, {}).items():
            if committed and found[0] > self.newest.get(key, (-1, b""))[0]:
                self.newest[key] = found

    def append(self, number: int, persist: Persist) -> None:
        for key, value in persist.records:
            if persist.producer is not None:
                assert value is not None
                self.pending.setdefault(persist.producer[0], {})[key] = number, value
            elif value is not None:
                self.newest[key] = number, value
            else:
                self.newest.pop(key, None)
                for some in self.pending.values():
                    some.pop(key, None)

    def load(self, world: World) -> World:
        lines = sorted(
            (at, producer, key, value)
            for producer, some in self.pending.items()
            for key, (at, value) in some.items()
        )
        loaded = World()
        loaded.core = GroupCoordinator(world.settings)
        loaded.core.load(
            [(key, value) for key, (_, value) in self.newest.items()],
            EventTime(0.0, 0),
            dict.fromkeys(self.newest, "u"),
            [
                PendingRecord(producer, key, value, "u", at < self.newest.get(key, (-1, b""))[0])
                for at, producer, key, value in lines
            ],
        )
        return loaded


def carry_out(world: World, log: Log, number: int, step: tuple[Any, ...]) -> None:
    written = len(world.persisted)
    match step:
        case ("commit", topic):
            world.commit(number, topic=topic)
        case ("in", topic, producer):
            world.commit_in(producer, number, topic=topic)
        case ("end", producer, committed):
            world.end(producer, committed=committed)
            log.end(producer, committed=committed)
        case ("delete", topic):
            world.ask(e.OffsetDelete(group_id="g", partitions=((topic, 0),)))
        case _:
            world.ask(e.DeleteGroups(("g",)))
    for persist in world.persisted[written:]:
        log.append(number, persist)


@given(_STEPS)
def test_coordinator_that_loads_the_log_goes_on_as_the_one_that_wrote_it(
    steps: list[tuple[Any, ...]],
) -> None:
    world, log = World(), Log()
    for number, step in enumerate(steps):
        carry_out(world, log, number, step)
    loaded = log.load(world)
    for stable in (True, False):
        assert loaded.fetch(stable=stable) == world.fetch(stable=stable)
    assert loaded.core.usage.offset_bytes == world.core.usage.offset_bytes
    for producer in (2, 1):
        world.end(producer, committed=True)
        loaded.end(producer, committed=True)
        assert loaded.fetch(stable=True) == world.fetch(stable=True)
    for one in (world, loaded):
        held = sum(
            group.offset_size(where, offset.metadata)
            for group in one.core.groups.values()
            for where, offset in group.offsets.items()
        )
        assert one.core.usage.offset_bytes == held


def test_committed_offset_has_the_record_of_any_other() -> None:
    world = World()
    world.commit_in(7, 5)
    (record,) = world.persisted[-1].records
    assert record == offset_record("g", ("t", 0), Committed(5, -1, "", 0))
