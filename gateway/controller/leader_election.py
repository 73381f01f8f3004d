"""Elects leaders and shrinks ISRs when a broker or one of its directories comes or goes
(``ReplicationControlManager.generateLeaderAndIsrUpdates``).

The functions return the changes of partitions alone. The caller writes the record of the broker

* after them if the broker goes (:func:`on_fenced`, :func:`on_unregistered`,
  :func:`on_directories_offline`), or registers a new incarnation (:func:`on_restart`),
* before them if the broker is unfenced or enters controlled shutdown (:func:`on_unfenced`,
  :func:`on_controlled_shutdown`).

In both cases ``context.state`` is that before the record. The changes need not fit into one atomic
operation: each of them leaves a valid state. A broker may have a hundred thousand partitions, so
each function works in slices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Final

from gateway.base.slices import Slices, pieces
from gateway.controller.features import has_elr
from gateway.controller.partition_change import Election, Target
from gateway.controller.partition_changes import PartitionChanges
from gateway.controller.partition_set import PartitionKey
from gateway.controller.request_context import ControllerRequestContext
from gateway.controller.state import State
from kwire.message import Message
from kwire.uuid import Uuid

#: Elections that one round of the two periodic tasks makes at most (``maxElectionsPerImbalance``).
ELECTIONS_MAX = 1_000
#: How many partitions are looked at between two slices: less than 1 ms.
_LOOKS_PER_SLICE: Final = 1_000
#: How many partitions a broker is removed from between two slices: less than 1 ms.
_LEFT_PER_SLICE: Final = 50


def leads_any(broker_id: int, state: State) -> bool:
    """Whether the broker leads a partition, so that it cannot shut down yet. The partitions must be
    indexed.
    """
    return state.partitions.leads_any(broker_id)


def on_fenced(broker_id: int, context: ControllerRequestContext) -> Slices[list[Message]]:
    """Remove a broker that is fenced from every ISR, and elect leaders in its place."""
    yield from context.state.index_partitions()
    records = yield from _without(broker_id, context, context.state.partitions.in_isr(broker_id))
    return records


def on_controlled_shutdown(
    broker_id: int, context: ControllerRequestContext
) -> Slices[list[Message]]:
    """Move the partitions of a broker that wants to shut down, as :func:`on_fenced`. To be repeated
    while it :func:`leads_any`: another replica may come into sync.
    """
    yield from context.state.index_partitions()
    # Every ISR, and not only the partitions that it leads: it cannot come back into one before it
    # restarts (KIP-841).
    records = yield from _without(broker_id, context, context.state.partitions.in_isr(broker_id))
    return records


def on_unregistered(broker_id: int, context: ControllerRequestContext) -> Slices[list[Message]]:
    """Remove a broker that is unregistered from every ISR; it stays a replica."""
    yield from context.state.index_partitions()
    records = yield from _without(broker_id, context, context.state.partitions.in_isr(broker_id))
    return records


def on_unfenced(broker_id: int, context: ControllerRequestContext) -> Slices[list[Message]]:
    """Elect leaders of partitions without one, now that the broker is unfenced."""
    yield from context.state.index_partitions()
    changes = PartitionChanges(context)
    # The partitions with a leader keep it: the new broker joins an ISR by AlterPartition, when it
    # has caught up.
    for topic_id, index in context.state.partitions.leaderless:
        partition = changes.partition(topic_id, index)
        if partition is not None:
            changes.make(partition, Target(election=changes.election(topic_id)), joining=broker_id)
        yield
    return changes.records


def on_restart(
    broker_id: int, context: ControllerRequestContext, *, clean: bool
) -> Slices[list[Message]]:
    """Remove a broker that registers a new incarnation from every ISR.

    ``clean``: the broker reports the epoch of its last clean shutdown, so it has lost no record
    that it acknowledged. After an unclean shutdown it is no eligible leader replica either, if the
    cluster keeps them (KIP-966, ``handleBrokerUncleanShutdown``).
    """
    # Without ELR an unclean shutdown is like a clean one: the ISR is left in either case.
    if clean or not has_elr(context.image):
        records = yield from on_fenced(broker_id, context)
        return records
    yield from context.state.index_partitions()
    index = context.state.partitions
    # A partition is in one of the two at most, because the ELR has no member of the ISR.
    keys = chain(index.in_isr(broker_id), index.eligible(broker_id))
    records = yield from _without(broker_id, context, keys, lost=(broker_id,))
    return records


def on_directories_offline(
    broker_id: int, directories: Collection[Uuid], context: ControllerRequestContext
) -> Slices[list[Message]]:
    """Remove the broker's replicas in ``directories``, which went offline, from every ISR
    (KIP-858, ``handleDirectoriesOffline``).
    """
    keys = yield from _in_directories(broker_id, directories, context)
    records = yield from _without(broker_id, context, keys)
    return records


def elect_unclean(
    context: ControllerRequestContext, elections_max: int = ELECTIONS_MAX
) -> Slices[list[Message]]:
    """Elect leaders outside the ISR, for partitions without a leader whose topics allow it
    (``maybeElectUncleanLeaders``); a periodic task.
    """
    yield from context.state.index_partitions()
    changes = PartitionChanges(context)
    for topic_id, index in context.state.partitions.leaderless:
        partition = changes.partition(topic_id, index)
        # The rest comes in the next round, which is due at once: ``Periodic.done``.
        if len(changes.records) >= elections_max:
            break
        # Asked for each partition: the configuration belongs to the topic.
        if partition is not None and changes.election(topic_id) is Election.UNCLEAN:
            changes.make(partition, Target(election=Election.UNCLEAN))
        yield
    return changes.records


def elect_preferred(
    context: ControllerRequestContext, elections_max: int = ELECTIONS_MAX
) -> Slices[list[Message]]:
    """Elect the first replica where it is not the leader and can be
    (``auto.leader.rebalance.enable``, ``maybeBalancePartitionLeaders``); a periodic task.
    """
    yield from context.state.index_partitions()
    changes = PartitionChanges(context)
    for topic_id, index in context.state.partitions.imbalanced:
        partition = changes.partition(topic_id, index)
        if len(changes.records) >= elections_max:
            break
        if partition is not None:
            # No record where the first replica cannot lead, so that such partitions do not use up
            # the round.
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
    """Remove the broker from the ISR and the leadership of these partitions. The nodes ``lost`` may
    have lost records that they acknowledged.
    """
    for some in pieces(keys, _LEFT_PER_SLICE):
        for topic_id, index in some:
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
    yield from changes.forget()
    return changes.records


def _in_directories(
    broker_id: int, directories: Collection[Uuid], context: ControllerRequestContext
) -> Slices[list[PartitionKey]]:
    """Return the partitions of which the broker has a replica in one of ``directories``."""
    # A search instead of an index (Kafka has directoriesToPartitions): directories seldom fail.
    found = []
    for topic_id, partitions in context.image.partitions.items():
        # A topic may have 10,000 partitions, so the slices are cut within it.
        for some in pieces(partitions.items(), _LOOKS_PER_SLICE):
            found += [
                (topic_id, index)
                for index, partition in some
                if (broker_id in partition.replicas)
                and partition.directories[partition.replicas.index(broker_id)] in directories
            ]
            yield
    return found
