"""Fetch of consumers from followers (KIP-392): the leader names one in the client's rack, and a
follower serves what it knows to be committed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.broker.replica.followed import Append
from gateway.config.config import Config
from gateway.config.values import LEADER_SELECTOR, RACK_AWARE
from gateway.handlers.apis import fetch, list_offsets
from gateway.ports.pending_response import PendingResponse
from kwire.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kwire.protocol import ErrorCode
from kwire.records import iter_batches
from tests.gateway.handlers.apis.test_fetch_of_followers import (
    PEER,
    Led,
    Replicas,
    data_of,
    fetch_from,
)
from tests.gateway.handlers.own_world import OTHER, OwnWorld
from tests.gateway.handlers.world import NODE, World
from tests.gateway.sources.followings import carry_out, followed, following
from tests.gateway.sources.test_follower_appends import batch

CONSUMER = -1


def registered(rack: str | None = "b", **more: Any) -> RegisterBrokerRecord:
    """The broker of the follower."""
    listener = more.pop("listener", "PLAINTEXT")
    return RegisterBrokerRecord(
        broker_id=more.pop("broker_id", PEER),
        broker_epoch=100,
        rack=rack,
        fenced=more.pop("fenced", False),
        end_points=[BrokerEndpoint(name=listener, host="peer.example", port=9092)],
    )


def leader(
    directory: Path, selector: str = RACK_AWARE, peer: RegisterBrokerRecord | None = None
) -> Led:
    """Broker 7 in rack ``a`` leads two records, which its follower in rack ``b`` has."""
    world = Led(directory)
    world.config = Config(broker_rack="a", replica_selector_class=selector)
    world.commit(peer or registered())
    world.append(b"a", b"b")
    world.fetch(2)
    return world


def preferred(world: Led, **more: Any) -> int:
    return int(data_of(world.fetch(0, CONSUMER, **more)).preferred_read_replica)


def test_leader_names_the_follower_in_the_rack_of_the_client_and_reads_nothing(
    tmp_path: Path,
) -> None:
    data = data_of(leader(tmp_path).fetch(0, CONSUMER, rack_id="b"))
    assert (data.preferred_read_replica, data.error_code) == (PEER, ErrorCode.NONE)
    assert (data.records, data.aborted_transactions) == (b"", None)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (2, 2, 0)


def test_leader_answers_at_once_when_it_names_a_follower(tmp_path: Path) -> None:
    world = leader(tmp_path)
    waits = {"max_wait_ms": 1000, "min_bytes": 1}
    assert isinstance(world.fetch(2, CONSUMER, rack_id="a", **waits), PendingResponse)
    assert data_of(world.fetch(2, CONSUMER, rack_id="b", **waits)).preferred_read_replica == PEER


@pytest.mark.parametrize("rack", ["", "a", "c"])
def test_leader_serves_clients_without_a_follower_in_their_rack(tmp_path: Path, rack: str) -> None:
    data = data_of(leader(tmp_path).fetch(0, CONSUMER, rack_id=rack))
    assert data.preferred_read_replica == -1
    assert len(data.records) > 0


@pytest.mark.parametrize("selector", ["", LEADER_SELECTOR])
def test_leader_serves_all_clients_without_a_selector_of_racks(
    tmp_path: Path, selector: str
) -> None:
    assert preferred(leader(tmp_path, selector), rack_id="b") == -1


@pytest.mark.parametrize(
    "peer",
    [registered(fenced=True), registered(listener="OTHER"), registered(rack=None)],
    ids=["fenced", "another listener", "no rack"],
)
def test_leader_names_no_follower_that_the_client_cannot_use(
    tmp_path: Path, peer: RegisterBrokerRecord
) -> None:
    assert preferred(leader(tmp_path, peer=peer), rack_id="b") == -1


def test_leader_names_no_follower_that_lacks_the_offset(tmp_path: Path) -> None:
    world = leader(tmp_path)
    world.append(b"c")
    assert data_of(world.fetch(3, CONSUMER, rack_id="b")).preferred_read_replica == -1


def test_follower_is_never_sent_to_another(tmp_path: Path) -> None:
    assert data_of(leader(tmp_path).fetch(0, PEER, rack_id="b")).preferred_read_replica == -1


def test_session_names_the_follower_in_each_response(tmp_path: Path) -> None:
    world = leader(tmp_path)
    first = world.fetch(2, CONSUMER, rack_id="b", session_epoch=0)
    assert first.session_id
    for epoch in (1, 2):
        more = world.fetch(
            None, CONSUMER, rack_id="b", session_id=first.session_id, session_epoch=epoch
        )
        assert data_of(more).preferred_read_replica == PEER


# --- at the follower
# -------------------------------------------------------------------------------------------------


class Following(OwnWorld):
    """A broker that follows the partition ``orders-0``: it has two records, of which it knows one
    to be committed.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.log = following(directory / "orders-0")
        for offset, value in enumerate((b"a", b"b")):
            self.hear(1, batch(offset, value))
        self.replicas = Replicas(self.log)
        self.create("orders", [OTHER, NODE])
        self.id = self.quorum_image.topic_ids["orders"]

    def fetch(self, offset: int, replica: int, **more: Any) -> Any:
        """Fetch from ``offset``."""
        return fetch_from(self, self.id, offset, replica, **more)

    def hear(self, high_watermark: int, records: bytes = b"") -> None:
        """The leader answers."""
        carry_out(self.log, Append(followed(self.log), records, high_watermark, 0))


def offsets(data: Any) -> list[int]:
    return [one.base_offset for one in iter_batches(data.records)]


def test_follower_serves_a_consumer_up_to_its_own_high_watermark(tmp_path: Path) -> None:
    world = Following(tmp_path)
    data = data_of(world.fetch(0, CONSUMER))
    assert (data.error_code, data.high_watermark) == (ErrorCode.NONE, 1)
    assert offsets(data) == [0]
    world.hear(2)
    assert offsets(data_of(world.fetch(0, CONSUMER))) == [0, 1]


def test_follower_has_nothing_yet_above_its_high_watermark(tmp_path: Path) -> None:
    data = data_of(Following(tmp_path).fetch(2, CONSUMER))
    assert (data.error_code, data.records) == (ErrorCode.NONE, b"")


def test_offset_beyond_the_log_of_a_follower_is_out_of_range(tmp_path: Path) -> None:
    data = data_of(Following(tmp_path).fetch(3, CONSUMER))
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_waiting_consumer_gets_records_when_the_high_watermark_of_the_follower_moves(
    tmp_path: Path,
) -> None:
    world = Following(tmp_path)
    pending = world.fetch(1, CONSUMER, max_wait_ms=1000)
    assert isinstance(pending, PendingResponse)
    assert pending.ready is not None and pending.ready() is None
    told: list[None] = []
    for one in pending.partitions:
        one.on_advance(lambda: told.append(None))
    world.hear(2)
    assert told
    assert pending.ready() is not None


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_follower_compares_the_leader_epoch(tmp_path: Path, epoch: int, error: ErrorCode) -> None:
    answer = Following(tmp_path).fetch(0, CONSUMER, current_leader_epoch=epoch)
    assert data_of(answer).error_code == error


def test_follower_names_the_leader_to_a_client_with_an_old_epoch(tmp_path: Path) -> None:
    world = Following(tmp_path)
    world.commit(registered(broker_id=OTHER))
    answer = world.fetch(0, CONSUMER, current_leader_epoch=0)
    leader = data_of(answer).current_leader
    assert (leader.leader_id, leader.leader_epoch) == (OTHER, 1)
    known = [(one.node_id, one.host, one.rack) for one in answer.node_endpoints]
    assert known == [(OTHER, "peer.example", "b")]


def test_follower_does_not_serve_a_follower(tmp_path: Path) -> None:
    data = data_of(Following(tmp_path).fetch(0, 3))
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_clients_that_know_nothing_of_racks_are_sent_to_the_leader(tmp_path: Path) -> None:
    world = Following(tmp_path)
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "orders", "partitions": [asked]}]
    errors = []
    for version in (10, 11):
        fields: dict[str, Any] = {"replica_id": -1, "session_epoch": -1, "topics": topics}
        answer = World.ask(world, fetch, version, max_wait_ms=0, min_bytes=0, **fields)
        errors.append(data_of(answer).error_code)
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]


def test_offsets_are_listed_by_the_leader_alone(tmp_path: Path) -> None:
    asked = [{"partition_index": 0, "timestamp": -1}]
    answer = World.ask(
        Following(tmp_path),
        list_offsets,
        7,
        replica_id=-1,
        topics=[{"name": "orders", "partitions": asked}],
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_log_of_a_partition_that_is_deleted_is_served_no_more(tmp_path: Path) -> None:
    world = Following(tmp_path)
    world.log.delete(lambda directory: None)
    data = data_of(world.fetch(0, CONSUMER))
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
