"""Who leads, and who is in sync, when a broker or one of its directories comes or goes
(``generateLeaderAndIsrUpdates``).

Each function gives the changes of partitions alone: the record about the broker is its caller's,
who writes it

* after these changes where the broker goes (:func:`on_fenced`, :func:`on_unregistered`,
  :func:`on_directories_offline`), or comes in another life (:func:`on_restart`),
* before them where it serves again or is about to leave (:func:`on_unfenced`,
  :func:`on_controlled_shutdown`).

``context.state`` is as before either. They may be more records than one operation holds: any part
of them is a good state too. A broker may have a hundred thousand partitions, so each function works
in slices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from gateway.controller.features import has_elr
from gateway.controller.partition_change import Election, Target
from gateway.controller.partition_changes import PartitionChanges
from gateway.controller.partition_index import PartitionKey
from gateway.controller.request_context import ControllerRequestContext
from gateway.controller.state import State
from gateway.slices import Slices, pieces
from kwire.message import Message
from kwire.uuid import Uuid

#: Elections that one round of the two periodic tasks makes at most (``maxElectionsPerImbalance``).
ELECTIONS_MAX = 1_000
#: How many partitions are looked at between two slices: less than 1 ms.
_LOOKS_PER_SLICE: Final = 1_000


def leads_any(broker_id: int, state: State) -> bool:
    """Does the broker lead a partition, so that it cannot shut down yet? The partitions must be
    indexed.
    """
    return state.partitions.leads_any(broker_id)


def on_fenced(broker_id: int, context: ControllerRequestContext) -> Slices[list[Message]]:
    """The broker is fenced, or shuts down now: it leaves every ISR, and others lead what it led."""
    yield from context.state.index_partitions()
    records = yield from _without(broker_id, context, context.state.partitions.in_isr(broker_id))
    return records


def on_controlled_shutdown(
    broker_id: int, context: ControllerRequestContext
) -> Slices[list[Message]]:
    """The broker wants to shut down: as :func:`on_fenced`. Ask again while it :func:`leads_any`."""
    yield from context.state.index_partitions()
    records = yield from _without(broker_id, context, context.state.partitions.in_isr(broker_id))
    return records


def on_unregistered(broker_id: int, context: ControllerRequestContext) -> Slices[list[Message]]:
    """The broker is to be forgotten: it leaves every ISR."""
    yield from context.state.index_partitions()
    records = yield from _without(broker_id, context, context.state.partitions.in_isr(broker_id))
    return records


def on_unfenced(broker_id: int, context: ControllerRequestContext) -> Slices[list[Message]]:
    """The broker serves from now on: it leads what nobody else may lead."""
    yield from context.state.index_partitions()
    changes = PartitionChanges(context)
    for topic_id, index in context.state.partitions.leaderless:
        partition = changes.partition(topic_id, index)
        if partition is not None:
            changes.make(partition, Target(election=changes.election(topic_id)), joining=broker_id)
        yield
    return changes.records


def on_restart(
    broker_id: int, context: ControllerRequestContext, *, clean: bool
) -> Slices[list[Message]]:
    """The broker registers in a new incarnation; ``clean``: it shut down in order, so it lost
    nothing it had acknowledged.

    After an unclean shutdown, where the cluster keeps eligible leader replicas, it may not even be
    one of them (KIP-966).
    """
    if clean or not has_elr(context.image):
        records = yield from on_fenced(broker_id, context)
        return records
    yield from context.state.index_partitions()
    index = context.state.partitions
    keys = index.in_isr(broker_id) + index.eligible(broker_id)
    records = yield from _without(broker_id, context, keys, lost=(broker_id,))
    return records


def on_directories_offline(
    broker_id: int, directories: Collection[Uuid], context: ControllerRequestContext
) -> Slices[list[Message]]:
    """The broker lost ``directories``: its replicas in them leave every ISR; all partitions there
    are looked at (KIP-858).
    """
    keys = yield from _in_directories(broker_id, directories, context)
    records = yield from _without(broker_id, context, keys)
    return records


def elect_unclean(
    context: ControllerRequestContext, elections_max: int = ELECTIONS_MAX
) -> Slices[list[Message]]:
    """Leaders for partitions that nobody leads, of topics that take an unclean one rather than
    none; a periodic task.
    """
    yield from context.state.index_partitions()
    changes = PartitionChanges(context)
    for topic_id, index in context.state.partitions.leaderless:
        partition = changes.partition(topic_id, index)
        if len(changes.records) >= elections_max:
            break
        if partition is not None and changes.election(topic_id) is Election.UNCLEAN:
            changes.make(partition, Target(election=Election.UNCLEAN))
        yield
    return changes.records


def elect_preferred(
    context: ControllerRequestContext, elections_max: int = ELECTIONS_MAX
) -> Slices[list[Message]]:
    """The first replica leads again where it can (``auto.leader.rebalance.enable``); a periodic
    task.
    """
    yield from context.state.index_partitions()
    changes = PartitionChanges(context)
    for topic_id, index in context.state.partitions.imbalanced:
        partition = changes.partition(topic_id, index)
        if len(changes.records) >= elections_max:
            break
        if partition is not None:
            changes.make(partition, Target(election=Election.PREFERRED))
        yield
    return changes.records


def remove_from_isr(
    changes: PartitionChanges,
    broker_id: int,
    keys: Iterable[PartitionKey],
    *,
    lost: Collection[int] = (),
) -> Slices[None]:
    """The broker leaves the ISR of these partitions, and leads none of them; of ``lost`` nobody
    knows what they still have.
    """
    for topic_id, index in keys:
        partition = changes.partition(topic_id, index)
        if partition is not None:
            changes.leave(partition, broker_id, lost)
        yield


def _without(
    broker_id: int,
    context: ControllerRequestContext,
    keys: Iterable[PartitionKey],
    *,
    lost: Collection[int] = (),
) -> Slices[list[Message]]:
    changes = PartitionChanges(context)
    yield from remove_from_isr(changes, broker_id, keys, lost=lost)
    return changes.records


def _in_directories(
    broker_id: int, directories: Collection[Uuid], context: ControllerRequestContext
) -> Slices[list[PartitionKey]]:
    """The partitions of which the broker has a replica in one of ``directories``; looked for, as
    directories seldom fail.
    """
    found = []
    for topic_id, partitions in context.image.partitions.items():
        for some in pieces(partitions.items(), _LOOKS_PER_SLICE):
            found += [
                (topic_id, index)
                for index, partition in some
                if (broker_id in partition.replicas)
                and partition.directories[partition.replicas.index(broker_id)] in directories
            ]
            yield
    return found
