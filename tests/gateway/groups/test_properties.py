"""Any clients, in any order, at any time: what holds of the group coordinator always."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.groups import Answer, Effect, EventTime, GroupCoordinator, Persist, Settings
from gateway.groups import events as e
from gateway.groups.group import State
from kwire.protocol import ErrorCode
from tests.gateway.groups.script import subscription

GROUPS = st.sampled_from(["g", "h"])
INSTANCES = st.sampled_from([None, None, None, "one", "two"])
PROTOCOLS = st.lists(st.sampled_from(["range", "sticky", "roundrobin"]), min_size=1, max_size=3)


class Coordinator(RuleBasedStateMachine):
    """Requests with true, stale and foreign ids; time; restarts; a disk that lags behind."""

    @initialize(delay_ms=st.sampled_from([0, 3000]), max_size=st.sampled_from([2, 100]))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.settings = Settings(
            initial_rebalance_delay_ms=delay_ms,
            max_size=max_size,
            groups_max=2,
            members_max=12,
            min_session_timeout_ms=1,
            bytes_reserved_per_group=0,
            offsets_retention_ms=40_000,
            retention_check_interval_ms=15_000,
        )
        self.now = 50.0
        self.random_bytes = 0
        self.tokens = 0
        self.disk: dict[bytes, bytes] = {}
        self.persisted = 0
        self.ids: list[str] = [""]  # every member id ever given out
        self.open: dict[int, e.Event] = {}  # requests without an answer
        self.parked_in_core: set[int] = set()
        self.generations: dict[str, int] = {}
        self.told: dict[
            tuple[str, int, int], str
        ] = {}  # group, generation, life of the server -> leader
        self.lives = 0
        self.core = GroupCoordinator(self.settings)
        self.core.load([], self.moment())

    def moment(self) -> EventTime:
        return EventTime(
            self.now, 1_000_000 + round(self.now * 1000), self.random_bytes.to_bytes(16, "big")
        )

    # Events.

    @rule(
        group=GROUPS, data=st.data(), instance=INSTANCES, names=PROTOCOLS,
        kind=st.sampled_from(["consumer", "consumer", "connect"]),
        version=st.sampled_from([3, 8, 9]), topics=st.lists(st.sampled_from("tu"), max_size=2),
        session=st.sampled_from([5000, 20_000]), rebalance=st.sampled_from([0, 5000, 30_000]),
    )  # fmt: skip
    def join(
        self,
        group: str,
        data: Any,
        instance: str | None,
        names: list[str],
        kind: str,
        version: int,
        topics: list[str],
        session: int,
        rebalance: int,
    ) -> None:
        metadata = subscription(topics) if topics else b"?"
        self.ask(
            e.JoinGroup(
                group_id=group,
                member_id=self.some_id(data, group),
                instance_id=instance,
                client_id="c",
                client_host="/h",
                session_timeout_ms=session,
                rebalance_timeout_ms=rebalance,
                protocol_type=kind,
                protocols=tuple(e.Protocol(name, metadata) for name in names),
                member_id_required=version >= 4,
                can_skip_assignment=version >= 9,
            )
        )

    @rule(group=GROUPS, data=st.data(), instance=INSTANCES)
    def sync(self, group: str, data: Any, instance: str | None) -> None:
        members = list(self.core.groups[group].members) if group in self.core.groups else []
        self.ask(
            e.SyncGroup(
                group_id=group,
                member_id=self.some_id(data, group),
                instance_id=instance,
                generation=self.some_generation(data, group),
                protocol_type=None,
                protocol_name=None,
                assignments=tuple((member, member.encode()) for member in members),
            )
        )

    @rule(group=GROUPS, data=st.data())
    def everybody_syncs(self, group: str, data: Any) -> None:
        found = self.core.groups.get(group)
        for member in list(found.members.values()) if found is not None else []:
            if found is not None and member.member_id in found.members:
                self.ask(
                    e.SyncGroup(
                        group_id=group,
                        member_id=member.member_id,
                        instance_id=None,
                        generation=found.generation,
                        protocol_type=None,
                        protocol_name=None,
                        assignments=tuple((name, name.encode()) for name in found.members),
                    )
                )

    @rule(group=GROUPS)
    def everybody_joins(self, group: str) -> None:
        found = self.core.groups.get(group)
        for member in list(found.members.values()) if found is not None else []:
            self.ask(
                e.JoinGroup(
                    group_id=group,
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id="c",
                    client_host="/h",
                    session_timeout_ms=member.session_timeout_ms,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    protocol_type=member.protocol_type,
                    protocols=member.protocols,
                    member_id_required=True,
                    can_skip_assignment=True,
                )
            )

    @rule(group=GROUPS, data=st.data(), instance=INSTANCES)
    def heartbeat(self, group: str, data: Any, instance: str | None) -> None:
        generation = self.some_generation(data, group)
        self.ask(
            e.Heartbeat(
                group_id=group,
                member_id=self.some_id(data, group),
                instance_id=instance,
                generation=generation,
            )
        )

    @rule(group=GROUPS, data=st.data(), instance=INSTANCES)
    def leave(self, group: str, data: Any, instance: str | None) -> None:
        self.ask(
            e.LeaveGroup(group_id=group, leavers=(e.Leaver(self.some_id(data, group), instance),))
        )

    @rule(
        group=GROUPS,
        data=st.data(),
        topic=st.sampled_from("tu"),
        offset=st.integers(0, 9),
        retention=st.sampled_from([-1, 9000]),
    )
    def commit(self, group: str, data: Any, topic: str, offset: int, retention: int) -> None:
        self.ask(
            e.OffsetCommit(
                group_id=group,
                member_id=self.some_id(data, group),
                instance_id=None,
                generation=self.some_generation(data, group),
                retention_ms=retention,
                # No version of the request can say both.
                offsets=(e.OffsetToCommit(topic, 0, offset, 1 if retention < 0 else -1, ""),),
                knows_group_id_not_found=True,
            )
        )

    @rule(group=GROUPS, what=st.sampled_from(["fetch", "forget", "list", "describe", "delete"]))
    def look_and_delete(self, group: str, what: str) -> None:
        events: dict[str, e.Event] = {
            "fetch": e.OffsetFetch(((group, None),)),
            "forget": e.OffsetDelete(group_id=group, partitions=(("t", 0),)),
            "list": e.ListGroups(),
            "describe": e.DescribeGroups((group,)),
            "delete": e.DeleteGroups((group,)),
        }
        self.ask(events[what])

    @rule(seconds=st.sampled_from([0.5, 3.0, 6.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(200):
            due = self.core.next_deadline()
            if due is None or due > until:
                break
            self.now = max(self.now, due)
            self.take(self.core.on_timer(self.moment()))
        else:
            raise AssertionError("timers without end")
        self.now = until

    @precondition(lambda self: self.lives < 3)
    @rule()
    def the_server_restarts(self) -> None:
        self.take(self.core.unload())
        assert not self.open, "a waiting client is answered"
        kept = picture(self.core)
        self.core = GroupCoordinator(self.settings)
        self.persisted = 0
        self.lives += 1
        self.generations = {}
        self.take(self.core.load(list(self.disk.items()), self.moment()))
        for group_id, (state, generation, members, offsets) in kept.items():
            found = self.core.groups.get(group_id)
            assert (found.offsets if found is not None else {}) == offsets
            if (
                state is State.STABLE
                and found is not None
                and len(members) <= self.settings.max_size
            ):
                assert (
                    found.state,
                    found.generation,
                    {m: x.assignment for m, x in found.members.items()},
                ) == (
                    state,
                    generation,
                    members,
                )

    # How it is done.

    def some_id(self, data: Any, group: str) -> str:
        found = self.core.groups.get(group)
        now = [*found.members, *sorted(found.pending_members)] if found is not None else []
        return str(data.draw(st.sampled_from([*now, *now, "", *self.ids[-4:]])))

    def some_generation(self, data: Any, group: str) -> int:
        found = self.core.groups.get(group)
        now = found.generation if found is not None else 0
        return int(data.draw(st.sampled_from([now, now, now, now - 1, -1])))

    def ask(self, event: e.Event) -> None:
        self.random_bytes += 1
        self.tokens += 1
        self.open[self.tokens] = event
        self.take(self.core.handle(event, self.tokens, self.moment()))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Persist):
                assert effect.number == self.persisted + 1
                self.persisted = effect.number
                for key, value in effect.records:
                    if value is None:
                        self.disk.pop(key, None)
                    else:
                        self.disk[key] = value
            else:
                assert isinstance(effect, Answer)
                self.take_answer(effect)

    def take_answer(self, answer: Answer) -> None:
        assert answer.after <= self.persisted, "waits for what was never written"
        event = self.open.pop(answer.asked.token)  # KeyError: answered twice
        assert answer.asked.event is event
        assert type(answer.result) is type(event.failed(ErrorCode.NOT_COORDINATOR))
        if isinstance(answer.result, e.JoinResult):
            self.check_join(event, answer.result)
        if isinstance(answer.result, e.SyncResult) and answer.result.error is ErrorCode.NONE:
            assert isinstance(event, e.SyncGroup)
            # A member's assignment (a static member keeps that of its old id) is written before it
            # is sent.
            assert answer.result.assignment in (
                b"",
                *(member_id.encode() for member_id in self.ids),
            )
            assert answer.after > 0 or self.lives > 0

    def check_join(self, event: e.Event, result: e.JoinResult) -> None:
        assert isinstance(event, e.JoinGroup)
        if result.member_id and result.member_id not in self.ids:
            self.ids.append(result.member_id)
        if result.error is ErrorCode.NONE:
            # One leader in a generation (an old static leader receives its old id: KIP-345).
            if result.members:
                assert result.leader == result.member_id
                assert result.member_id in [member.member_id for member in result.members]
            assert result.generation >= 1
            assert result.protocol_name in [protocol.name for protocol in event.protocols]

    # Invariants.

    @invariant()
    def generations_never_go_back(self) -> None:
        for group_id, group in getattr(self, "core", GroupCoordinator(Settings())).groups.items():
            assert group.generation >= self.generations.get(group_id, 0)
            self.generations[group_id] = group.generation
        if hasattr(self, "core"):
            for group_id in set(self.generations) - set(self.core.groups):
                del self.generations[group_id]

    @invariant()
    def every_group_is_consistent(self) -> None:
        for group in getattr(self, "core", GroupCoordinator(Settings())).groups.values():
            assert (group.state is State.EMPTY) == (
                not group.members
            ) or group.state is State.PREPARING_REBALANCE
            assert (group.leader in group.members) if group.members else group.leader is None
            assert not group.pending_members & set(group.members)
            assert set(group.static_members.values()) == {
                m.member_id for m in group.members.values() if m.instance_id
            }
            for name, member in group.members.items():
                assert name == member.member_id
                assert member.awaiting_join is None or group.state is State.PREPARING_REBALANCE
                assert member.awaiting_sync is None or group.state is State.COMPLETING_REBALANCE
            if group.members:
                group.select_protocol()  # there is always one in common
            if group.state is State.STABLE:
                assert group.protocol_name is not None

    @invariant()
    def who_waits_is_known(self) -> None:
        if hasattr(self, "core"):
            waiting = {
                asked.token
                for group in self.core.groups.values()
                for member in group.members.values()
                for asked in (member.awaiting_join, member.awaiting_sync)
                if asked is not None
            }
            assert waiting == set(self.open)

    @invariant()
    def what_is_held_is_counted(self) -> None:
        if hasattr(self, "core"):
            groups = self.core.groups.values()
            usage = self.core._state.usage
            assert usage.members == sum(len(g.members) + len(g.pending_members) for g in groups)
            assert (
                usage.members <= self.settings.members_max
                and len(groups) <= self.settings.groups_max
            )
            assert (usage.bytes > 0) == bool(groups)
            for name in ("groups", "members", "member_bytes", "offset_bytes"):
                assert getattr(usage, name) == sum(getattr(group.held, name) for group in groups)
                assert getattr(usage, name) >= sum(
                    getattr(share, name) for share in usage.by_owner.values()
                )

    @invariant()
    def no_member_waits_for_ever(self) -> None:
        """Every member of a group has a deadline, or waits for a member that has one."""
        for group in getattr(self, "core", GroupCoordinator(Settings())).groups.values():
            timers = self.core._state.timers._deadlines
            due = {(t.kind, t.member_id) for t in timers if t.group_id == group.group_id}
            if group.state is State.PREPARING_REBALANCE:
                assert ("join", "") in due
            for member in group.members.values():
                assert ("heartbeat", member.member_id) in due or member.is_excused
            for member_id in group.pending_members:
                assert ("heartbeat", member_id) in due
            if group.state is State.COMPLETING_REBALANCE:
                assert ("sync", "") in due or not group.pending_sync


def picture(core: GroupCoordinator) -> dict[str, Any]:
    return {
        group_id: (
            group.state,
            group.generation,
            {m: x.assignment for m, x in group.members.items()},
            dict(group.offsets),
        )
        for group_id, group in core.groups.items()
    }


Coordinator.TestCase.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestCoordinator = Coordinator.TestCase
