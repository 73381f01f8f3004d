"""Hostile responses and lasting failures: an observer does not raise, break its log, or spin."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from gateway.base.address import Address
from gateway.quorum.effects import (
    Failure,
    FailureKind,
    InstallSnapshot,
    Send,
)
from gateway.quorum.events import Answered, Failed
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages import describe_quorum_response as quorum
from kwire.messages import fetch_response as fetch
from kwire.messages import fetch_snapshot_response as snapshot
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_cluster_response import DescribeClusterResponse
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.quorum.batches import corrupted, data_batch
from tests.gateway.quorum.observer.driven import Driven
from tests.gateway.quorum.observer.process import ModelLog, observer_settings

#: Requests that any way of failing may cost in a second: 20 ms doubling to 1 s, begun anew for
#: three leaders named.
REQUESTS_MAX = 20

Answer = Message | FailureKind
Answerer = Callable[[Send], Answer]


def liar_install(effect: InstallSnapshot) -> None:
    raise DecodeError("no snapshot of a liar is whole")


class Hostile(Driven):
    """An observer with ten records, four of them committed, among those who lie."""

    def __init__(self, **settings: Any) -> None:
        log = ModelLog()
        for base in range(0, 10, 2):
            log.append(data_batch(base, 2, 2, 0).data)
        bootstrap = (Address("a", 1), Address("b", 2))
        super().__init__(
            observer_settings(bootstrap, cluster_id="x", **settings), log, epoch=2, high_watermark=4
        )
        self.install = liar_install

    def run(self, answerer: Answerer, until: float) -> None:
        run(self, answerer, until)


def run(driven: Driven, answerer: Answerer, until: float) -> None:
    """Every response comes after a millisecond."""
    while driven.now < until and not driven.stopped:
        if not driven.open:
            assert driven.tick(), "an observer that was not stopped goes on"
            continue
        send = driven.open[0]
        made = answerer(send)
        driven.now += 0.001
        driven.answer(send, made)


def most_in_a_second(sent: list[float]) -> int:
    window: deque[float] = deque()
    most = 0
    for time in sent:
        window.append(time)
        while window[0] <= time - 1.0:
            window.popleft()
        most = max(most, len(window))
    return most


def fetched(
    epoch: int = 2, leader: int = 1, nodes: tuple[int, ...] = (), **fields: Any
) -> fetch.FetchResponse:
    data = fetch.PartitionData(records=b"", **fields)
    data.current_leader = fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])
    listed = [fetch.NodeEndpoint(node_id=id, host=f"n{id}", port=1000 + id % 1000) for id in nodes]
    return fetch.FetchResponse(responses=[topic], node_endpoints=listed)


def with_records(records: bytes, **fields: Any) -> fetch.FetchResponse:
    response = fetched(**fields)
    response.responses[0].partitions[0].records = records
    return response


def with_snapshot(end: int, epoch: int = 2) -> fetch.FetchResponse:
    return fetched(snapshot_id=fetch.SnapshotId(end_offset=end, epoch=epoch))


def chunk(ask: Send, **fields: Any) -> snapshot.FetchSnapshotResponse:
    request = ask.request(1)
    assert isinstance(request, FetchSnapshotRequest)
    asked = request.topics[0].partitions[0]
    id = snapshot.SnapshotId(end_offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch)
    data = snapshot.PartitionSnapshot(
        snapshot_id=id,
        **{"size": 9, "position": asked.position, "unaligned_records": b"", **fields},
    )
    data.current_leader = snapshot.LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    return snapshot.FetchSnapshotResponse(
        topics=[snapshot.TopicSnapshot(name="__cluster_metadata", partitions=[data])]
    )


def always(made: Answer) -> Answerer:
    return lambda ask: made


def each(make: Callable[[int], Answer]) -> Answerer:
    numbers = count(1)
    return lambda ask: make(next(numbers))


def position(ask: Send) -> int:
    """Return the position that a FetchSnapshot asks for."""
    request: Any = ask.request(1)
    return int(request.topics[0].partitions[0].position)


def pointing(
    make: Callable[[Send], Answer], id: Callable[[int], int] = lambda number: 20
) -> Answerer:
    """A leader that always points to a snapshot, and ``make`` for what is asked of it."""
    numbers = count(1)
    return lambda ask: (
        make(ask)
        if ask.api_key == FetchSnapshotRequest.API_KEY
        else with_snapshot(id(next(numbers)))
    )


NO_TOPICS = snapshot.FetchSnapshotResponse(error_code=-1)
FAILING: dict[str, Answerer] = {
    **{kind.value: always(kind) for kind in FailureKind},
    **{
        f"top level {code}": always(fetch.FetchResponse(error_code=code))
        for code in (-1, 3, 31, 35, 42, 55, 100, 9999)
    },
    **{
        f"partition {code}": always(fetched(error_code=code))
        for code in (-1, 3, 7, 8, 42, 74, 75, 98, 99, 9999)
    },
    "a resigned leader names itself": always(fetched(error_code=6, leader=1, nodes=(1,))),
    "no leader": always(fetched(error_code=6, leader=-1)),
    "an older epoch": always(fetched(error_code=74, epoch=1)),
    "a later epoch each time": each(
        lambda n: fetched(error_code=74, epoch=2 + n, leader=n, nodes=(n,))
    ),
    "a later epoch each time, without a leader": each(
        lambda n: fetched(error_code=74, epoch=2 + n, leader=-1)
    ),
    "another leader each time": each(lambda n: fetched(error_code=6, leader=n, nodes=(n,))),
    "another leader each time, without error": each(lambda n: fetched(leader=n, nodes=(n,))),
    "the last epoch there is": always(fetched(error_code=74, epoch=2**31 - 1, leader=1)),
    "no news, at once": always(fetched(high_watermark=-1)),
    "a high watermark each time": each(lambda n: fetched(high_watermark=1000 + n)),
    "no topic": always(fetch.FetchResponse()),
    "another topic": always(
        fetch.FetchResponse(
            responses=[fetch.FetchableTopicResponse(topic_id=Uuid(bytes(range(16))))]
        )
    ),
    "records from elsewhere": always(with_records(data_batch(50, 2, 2, 0).data)),
    "records that are none": always(with_records(b"\x00" * 200)),
    "records cut short": always(with_records(data_batch(10, 2, 2, 0).data[:-1])),
    "records with a wrong CRC": always(with_records(corrupted(data_batch(10, 2, 2, 0).data))),
    "a divergence that is none": always(
        fetched(diverging_epoch=fetch.EpochEndOffset(epoch=2, end_offset=99))
    ),
    "half a divergence": always(fetched(diverging_epoch=fetch.EpochEndOffset(epoch=2))),
    "half a snapshot": always(with_snapshot(20, -1)),
    "a snapshot of the future": always(with_snapshot(20, 9)),
    "a snapshot where we are": pointing(lambda ask: NO_TOPICS, lambda n: 10),
    "a snapshot that is gone": pointing(lambda ask: NO_TOPICS),
    "a snapshot, then closed": pointing(lambda ask: FailureKind.CLOSED),
    "a snapshot without bytes": pointing(chunk),
    "a snapshot of no bytes": pointing(lambda ask: chunk(ask, size=0)),
    "a snapshot with too many bytes": pointing(lambda ask: chunk(ask, unaligned_records=b"x" * 10)),
    "a snapshot that is refused": pointing(lambda ask: chunk(ask, unaligned_records=b"x" * 9)),
    "another snapshot each time, without bytes": pointing(chunk, lambda n: 20 + n),
    "another snapshot each time, then gone": pointing(lambda ask: NO_TOPICS, lambda n: 20 + n),
    "a chunk, then closed": pointing(
        lambda ask: FailureKind.CLOSED if position(ask) else chunk(ask, unaligned_records=b"x")
    ),
}


#: The responses to a principal that may only follow: neither the cluster id nor the voters.
ASIDE: dict[int, Answer] = {
    DescribeClusterRequest.API_KEY: DescribeClusterResponse(error_code=31),
    DescribeQuorumRequest.API_KEY: quorum.DescribeQuorumResponse(error_code=31),
}


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("name", FAILING)
def test_no_way_of_failing_makes_it_spin(name: str, history: bool) -> None:
    driven = Hostile(history=history)
    driven.run(FAILING[name], 30.0)
    assert not driven.stopped
    assert most_in_a_second(driven.sent) <= REQUESTS_MAX
    late = [time for time in driven.sent if time > 10.0]
    assert len(late) <= 4 * 21, "after a while it is a few requests a second"
    assert driven.now - driven.sent[-1] <= 6.0, "it never gives up"


@pytest.mark.parametrize("name", FAILING)
def test_an_empty_log_with_history_does_not_spin_either(name: str) -> None:
    settings = observer_settings((Address("a", 1),), replica_id=70, history=True)
    driven = Driven(settings, ModelLog(), epoch=2)
    driven.install = liar_install
    run(driven, lambda ask: ASIDE.get(ask.api_key) or FAILING[name](ask), 20.0)
    assert most_in_a_second(driven.sent) <= REQUESTS_MAX


def _numbers(rng: random.Random, near: int) -> int:
    return rng.choice(
        (-(2**63), -2, -1, 0, 1, near - 1, near, near + 1, near + 7, 2**31 - 1, 2**63 - 1)
    )


def _epochs(rng: random.Random, near: int) -> int:
    return rng.choice(
        (
            -(2**31),
            -1,
            0,
            near - 1,
            near,
            near,
            near,
            near,
            near + 1 if rng.random() < 0.2 else near,
        )
    )


def _lie(rng: random.Random, driven: Hostile, ask: Send) -> Answer:
    """An answer of the right type, of which every field may be anything; most are near to the
    truth.
    """
    end, epoch = driven.log.end_offset, driven.epoch
    if rng.random() < 0.05:
        return rng.choice(list(FailureKind))
    if ask.api_key == DescribeClusterRequest.API_KEY:
        return DescribeClusterResponse(
            cluster_id=rng.choice(("", "x")), error_code=rng.choice((0, 31))
        )
    if ask.api_key == DescribeQuorumRequest.API_KEY:
        data = quorum.PartitionData(
            current_voters=[quorum.ReplicaState(replica_id=rng.randint(-1, 5))]
        )
        return quorum.DescribeQuorumResponse(
            topics=[quorum.TopicData(topic_name="__cluster_metadata", partitions=[data])]
        )
    if ask.api_key == FetchSnapshotRequest.API_KEY:
        made = chunk(
            ask,
            size=_numbers(rng, 9),
            unaligned_records=b"x" * rng.randint(0, 12),
            error_code=rng.choice((0, 0, 0, 98, 99, 6)),
            **({"position": _numbers(rng, 3)} if rng.random() < 0.3 else {}),
        )
        made.topics[0].partitions[0].current_leader.leader_epoch = _epochs(rng, epoch)
        return made if rng.random() < 0.9 else NO_TOPICS
    return _lie_of_fetch(rng, end, epoch)


def _lie_of_fetch(rng: random.Random, end: int, epoch: int) -> Answer:
    error = rng.choice((0, 0, 0, 0, 0, 0, 6, 74, 75, -1, 42, 98, 9999))
    made = fetched(
        _epochs(rng, epoch), rng.choice((-5, -1, 1, 1, 1, 2)), error_code=error, nodes=(1, -1, 2)
    )
    data = made.responses[0].partitions[0]
    data.high_watermark, data.log_start_offset = _numbers(rng, end), _numbers(rng, 0)
    kind = rng.random()
    if kind < 0.4:
        base = rng.choice((end, end, end, end, end - 1, end + 1, 0)) % 2**40
        data.records = data_batch(base, rng.randint(1, 3), max(0, _epochs(rng, epoch)), 0).data[
            : rng.choice((None, None, -1, 70))
        ]
        if rng.random() < 0.1:
            data.records = corrupted(data.records)
    elif kind < 0.5:
        data.snapshot_id = fetch.SnapshotId(
            end_offset=_numbers(rng, end), epoch=_epochs(rng, epoch)
        )
    elif kind < 0.6:
        data.diverging_epoch = fetch.EpochEndOffset(
            epoch=_epochs(rng, epoch), end_offset=max(4, _numbers(rng, end))
        )
    if rng.random() < 0.05:
        made.responses = made.responses * rng.choice((0, 2))
    return made


@pytest.mark.parametrize("seed", range(60))
def test_liars_neither_break_nor_stop_anything_but_themselves(seed: int) -> None:
    """Offsets, epochs, sizes and errors at random: the log stays whole, what is shown only grows,
    epochs never go back.
    """
    rng = random.Random(seed)
    driven = Hostile(history=rng.random() < 0.5, replica_id=rng.choice((-1, 70)))
    driven.run(lambda ask: _lie(rng, driven, ask), 40.0)
    if driven.stopped:
        assert driven.stopped.startswith("Committed records would be lost: ")
    else:
        assert len(driven.sent) > 10
    assert driven.raft.high_watermark == driven.shown <= driven.log.end_offset


def test_a_fetch_is_only_answered_once() -> None:
    driven = Hostile()
    found = driven.open[0]
    assert found.api_key == FetchRequest.API_KEY
    driven.answer(found, fetched(error_code=6, nodes=(1,)))
    [send] = driven.open
    made = with_records(data_batch(10, 2, 2, 0).data)
    driven.answer(send, made)
    assert driven.log.end_offset == 12
    driven.step(Answered(send.number, made, 18))
    driven.step(Failed(send.number, Failure(FailureKind.CLOSED, "closed")))
    assert driven.log.end_offset == 12
