"""Builds nodes and requests for tests of elections."""

from __future__ import annotations

from typing import Any

from gateway.quorum import requests
from gateway.quorum.effects import ElectionState
from gateway.quorum.partition import Position
from kwire.protocol import ErrorCode
from tests.gateway.quorum.batches import data_batch
from tests.gateway.quorum.model_disk import CLUSTER, directory, voter_node
from tests.gateway.quorum.world import World


def node(
    state: ElectionState | None,
    *,
    log_epochs: tuple[int, ...] = (1,),
    voters: tuple[int, ...] = (1, 2, 3),
    **more: Any,
) -> World:
    """Start node 1 from that state and one record of each epoch; no other node runs."""
    world = World()
    member = world.add(1, static=voters, **more)
    for offset, epoch in enumerate(log_epochs):
        member.disk.append(offset, data_batch(offset, 1, epoch, 0).data)
    member.disk.state = state
    member.boot()
    world.settle()
    return world


def vote(
    world: World,
    epoch: int,
    candidate: int = 2,
    log: tuple[int, int] = (1, 1),
    *,
    pre: bool = False,
    **more: Any,
) -> Any:
    request = requests.vote(
        2,
        cluster_id=CLUSTER,
        epoch=epoch,
        candidate=(candidate, directory(candidate)),
        voter=voter_node(1),
        log_end=Position(*log),
        pre_vote=pre,
    )
    for name, value in more.items():
        setattr(request, name, value)
    answers: list[Any] = []
    world.request(1, request, 2, answers.append)
    world.settle()
    return answers[0]


def said(answer: Any) -> tuple[int, bool]:
    partition = answer.topics[0].partitions[0]
    return partition.error_code, partition.vote_granted


NOT_GRANTED = (ErrorCode.NONE, False)


GRANTED = (ErrorCode.NONE, True)
