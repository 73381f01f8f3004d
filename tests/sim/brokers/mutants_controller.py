"""Bugs of the controller: elections, changes of ISRs, reassignments, registrations."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

from gateway.controller import isr_change, leader_election, partition_changes
from gateway.controller.apis import broker_heartbeat, broker_registration
from gateway.controller.partition_change import Election, _Change, _Elected
from gateway.controller.sessions import Sessions
from kwire.messages.partition_change_record import PartitionChangeRecord
from tests.patches import patched, together
from tests.sim.brokers.controllers import ControllerProcess
from tests.sim.mutant_registry import Mutants

Context = AbstractContextManager[Any]
MUTANTS: Final = Mutants()


def _nothing(*args: Any, **named: Any) -> Any:
    """A function of the controller that works in slices and returns no records."""
    yield
    return []


# --- elections


@MUTANTS.register("an obvious mistake")
def any_live_replica_may_lead() -> Context:
    """A replica that is not in sync is elected, whatever the topic's configuration."""

    def may_lead(self: _Change, node_id: int) -> bool:
        return bool(self._rules.accepts(node_id))

    def elected(self: _Change) -> _Elected:
        found = of_change(self)
        if found.node_id >= 0 and found.node_id not in (*self._isr, *self._elr):
            self._isr = [*self._isr, found.node_id]
        return found

    of_change = _Change._elected
    return patched(_Change, _may_lead=may_lead, _elected=elected)


@MUTANTS.register("an obvious mistake")
def elections_are_always_unclean() -> Context:
    """unclean.leader.election.enable counts as true."""
    changes = partition_changes.PartitionChanges
    return patched(changes, election=lambda self, topic_id: Election.UNCLEAN)


@MUTANTS.register("an obvious mistake")
def preferred_replicas_lead_without_being_in_sync() -> Context:
    """The election of the preferred leader does not ask whether it is in sync."""

    def elected(self: _Change) -> _Elected:
        first = self._replicas[0]
        is_asked = self._target.election is Election.PREFERRED
        if is_asked and self._rules.accepts(first) and first not in self._isr:
            self._isr = [*self._isr, first]
            return _Elected(first)
        return of_change(self)

    of_change = _Change._elected
    return patched(_Change, _elected=elected)


@MUTANTS.register("KIP-966")
def eligible_replicas_stay_eligible() -> Context:
    """A replica that left the ISR may lead for ever."""

    def count(self: _Change) -> None:
        if self._rules.elr:
            candidates = {*self._elr, *self._before.isr} & set(self._replicas)
            self._elr = sorted(candidates - set(self._isr))

    def leave(*args: Any, **named: Any) -> None:
        return None

    short = patched(partition_changes, leave_isr=leave)
    return together(patched(_Change, _count_eligible=count), short)


@MUTANTS.register("KIP-966")
def eligible_after_power_loss() -> Context:
    """A replica stays eligible although its broker has not shut down cleanly."""

    def count(self: _Change) -> None:
        lost, self._target.unclean_shutdown = self._target.unclean_shutdown, ()
        of_change(self)
        self._target.unclean_shutdown = lost

    of_change = _Change._count_eligible
    return patched(_Change, _count_eligible=count)


@MUTANTS.register("KAFKA-14139")
def a_restart_keeps_the_broker_in_sync() -> Context:
    """A broker that registers a new incarnation stays in the ISRs that it was in."""
    return patched(broker_registration, on_restart=_nothing)


@MUTANTS.register("KIP-631")
def fenced_brokers_keep_leading() -> Context:
    """Nothing moves away from a broker that is fenced."""
    from gateway.controller import brokers

    return patched(brokers, on_fenced=_nothing)


@MUTANTS.register("an obvious mistake")
def fenced_brokers_may_lead() -> Context:
    """A broker without a session is elected like any other."""
    from gateway.controller.nodes import Nodes

    return patched(Nodes, is_active=lambda self, node_id: True)


@MUTANTS.register("an obvious mistake")
def elections_keep_the_leader_epoch() -> Context:
    """A new leader has the leader epoch of the one before it."""
    from kwire.cluster.entities import partitions

    merge = partitions.merge

    def same(before: Any, change: PartitionChangeRecord) -> Any:
        after = merge(before, change)
        after.leader_epoch = before.leader_epoch
        return after

    return together(*(patched(one, merge=same) for one in _merging()))


def _merging() -> list[Any]:
    """The modules that merge partition changes."""
    import sys

    from kwire.cluster.entities import partitions

    merge = partitions.merge
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith(("gateway.controller", "kwire.cluster"))
        and getattr(module, "merge", None) is merge
    ]


@MUTANTS.register("an obvious mistake")
def unfenced_brokers_take_no_leadership() -> Context:
    """A broker that is unfenced is not elected for partitions without a leader."""
    return patched(broker_heartbeat, on_unfenced=_nothing)


# --- changes of the ISR


@MUTANTS.register("KIP-903, KAFKA-14139")
def broker_epochs_of_the_isr_are_not_compared() -> Context:
    """A broker joins an ISR although it has restarted since it was caught up."""
    return patched(isr_change, _is_eligible=lambda replica, context: True)


@MUTANTS.register("KIP-497")
def isr_changes_of_any_epoch() -> Context:
    """An ISR change is taken from a leader of an older epoch, or one that has missed a change."""

    def check(broker_id: int, wanted: Any, before: Any) -> None:
        return

    return patched(isr_change, _check_epochs=check, _check_isr=lambda isr, state, before: None)


@MUTANTS.register("KIP-497")
def partition_epochs_are_not_compared() -> Context:
    """An ISR change is taken from a leader that has not seen the newest one."""
    check = isr_change._check_epochs

    def checked(broker_id: int, wanted: Any, before: Any) -> None:
        check(broker_id, wanted._replace(partition_epoch=before.partition_epoch), before)

    return patched(isr_change, _check_epochs=checked)


@MUTANTS.register("an obvious mistake")
def the_isr_loses_its_members_one_too_many() -> Context:
    """An ISR change that adds a replica removes the last one before it."""
    alter = isr_change.alter

    def altered(broker_id: int, wanted: Any, changes: Any, context: Any) -> Any:
        isr = [one for one in wanted.isr if one.broker_id == broker_id]
        before = changes.partition(wanted.topic_id, wanted.partition_index)
        if before is not None and len(wanted.isr) > len(before.isr):
            isr = [*isr, *(one for one in wanted.isr if one.broker_id not in before.isr)]
            wanted = wanted._replace(isr=isr)
        return alter(broker_id, wanted, changes, context)

    from gateway.controller.apis import alter_partition

    return patched(alter_partition, alter=altered)


# --- reassignments


@MUTANTS.register("KIP-455")
def reassignments_end_at_once() -> Context:
    """A reassignment ends before the replicas that it adds are in sync."""

    def complete(self: _Change) -> None:
        if self._adding or self._removing:
            kept = [one for one in self._replicas if one not in self._removing]
            self._isr = kept
            self._replicas, self._removing, self._adding = kept, [], []

    return patched(_Change, _complete_reassignment=complete)


@MUTANTS.register("KIP-455")
def reassignments_never_end() -> Context:
    """Replicas that a reassignment removes stay."""
    return patched(_Change, _complete_reassignment=lambda self: None)


# --- brokers and controllers


@MUTANTS.register("an obvious mistake")
def sessions_never_end() -> Context:
    """A broker that sends no heartbeats is not fenced."""
    return patched(Sessions, expired=lambda self, now_ms: None)


@MUTANTS.register("KIP-631")
def shutdown_before_leaders_have_moved() -> Context:
    """A broker may shut down while it leads partitions."""
    return patched(
        broker_heartbeat,
        _may_go=lambda broker, context: True,
        leads_any=lambda broker_id, state: False,
    )


@MUTANTS.register("KAFKA-14457, 15048")
def proposals_of_an_old_leadership_stay() -> Context:
    """A controller that leads again decides on what it had proposed before, committed or not."""
    lead = ControllerProcess.lead

    def again(self: ControllerProcess, epoch: int) -> None:
        known = getattr(self, "known_image", None)
        lead(self, epoch)
        if known is not None and self.controller is not None:
            self.controller._state.image.partitions.update(known)  # type: ignore[union-attr]
        assert self.controller is not None
        self.known_image = self.controller.image.partitions  # type: ignore[attr-defined,union-attr]

    return patched(ControllerProcess, lead=again)


@MUTANTS.register("an obvious mistake")
def answers_before_the_commit() -> Context:
    """The controller answers before its records are committed."""

    def answer(self: ControllerProcess, number: int, decision: Any) -> None:
        whole = getattr(decision.answer, "whole", lambda: decision.answer)()
        self.reply(number, whole)
        if decision.operation is not None:
            self._propose(decision.operation, lambda: None)

    return patched(ControllerProcess, _answer_later=answer)


@MUTANTS.register("an obvious mistake")
def a_replaced_controller_still_commits() -> Context:
    """A controller commits what it proposes after another was elected."""

    def commit(self: ControllerProcess, epoch: int) -> None:
        if self.controller is not None and self._pending:
            self._commit_first()
            if self._pending:
                self._commit_later()

    def commit_later(self: ControllerProcess) -> None:
        self.after(0.005, lambda: self._commit(self.epoch))

    return patched(ControllerProcess, _commit=commit, _commit_later=commit_later)


@MUTANTS.register("KAFKA-7128")
def a_fenced_broker_stays_in_sync() -> Context:
    """A fenced broker loses its leaderships, and stays in the ISR."""

    def leave(changes: Any, broker_id: int, keys: Any, *, lost: Any = ()) -> Any:
        for topic_id, index in list(keys):
            partition = changes.partition(topic_id, index)
            if partition is not None and partition.leader == broker_id and len(partition.isr) > 1:
                changes.leave(partition, broker_id, lost)
        yield

    return patched(leader_election, remove_from_isr=leave)
