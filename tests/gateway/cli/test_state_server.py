"""States out of a server: the same as out of its files, and sentences where a server has no state
to give.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import kwire
from gateway.base.address import Address
from gateway.cli import main, topic_reader
from gateway.cli.address import parse_addresses
from gateway.cli.server_options import Server
from gateway.cli.state_files import load_files
from gateway.cli.state_server import load_server
from gateway.cli.topic_reader import TopicReader
from gateway.ports.services import Read
from gateway.security.client_properties import ClientSecurity
from kwire.cluster.shell_view import entities
from kwire.message import Message
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.topic_record import TopicRecord
from kwire.metadata_log.at import At
from kwire.metadata_log.fold import State
from kwire.records import encode_metadata_record
from kwire.records.encode import encode_batch
from kwire.records.record import Record
from kwire.uuid import Uuid
from tests.gateway.handlers.mini_server import MiniServer, serving
from tests.shared import needs_shared
from tools.gateway_process import gateway

SAMPLE = Path(__file__).resolve().parents[3] / "gateway" / "sample"


@pytest.fixture(scope="module")
def server() -> Iterator[MiniServer]:
    with serving() as server:
        yield server


def at_port(port: int) -> Server:
    return Server((Address("127.0.0.1", port),), ClientSecurity())


def same(one: State, other: State) -> bool:
    assert one.image.next_offset == other.image.next_offset
    assert len(one.notes) == len(other.notes)
    return dict(entities(one.image)) == dict(entities(other.image))


def test_the_state_is_that_of_the_files(server: MiniServer) -> None:
    end = server.partition.high_watermark
    for at in (At(), *(At(offset=offset) for offset in (0, 1, 7, end // 2, end))):
        assert same(load_server(at_port(server.port), at), load_files([SAMPLE], at)), at


def test_as_of_a_time(server: MiniServer) -> None:
    half = load_files([SAMPLE], At(offset=server.partition.high_watermark // 2)).timestamp
    for time_ms in (0, half, 2**50):
        by_server, by_files = (
            load_server(at_port(server.port), At(time_ms=time_ms)),
            load_files([SAMPLE], At(time_ms=time_ms)),
        )
        assert dict(entities(by_server.image)) == dict(entities(by_files.image))
    assert load_server(at_port(server.port), At(time_ms=0)).image.topic_ids == {}


def test_both_commands_read_a_server(server: MiniServer) -> None:
    where = f"127.0.0.1:{server.port}"
    by_server = CliRunner().invoke(main, ["state", "-b", where, "--path", "/topics"])
    by_files = CliRunner().invoke(main, ["state", str(SAMPLE), "--path", "/topics"])
    assert (by_server.exit_code, by_server.stdout) == (0, by_files.stdout)
    result = CliRunner().invoke(main, ["diff", str(SAMPLE), where])
    assert (result.exit_code, result.output) == (0, "")
    result = CliRunner().invoke(main, ["diff", f"{where}@0", where])
    assert result.exit_code == 1 and json.loads(result.stdout.splitlines()[0])["change"] in (
        "added",
        "changed",
    )


def test_an_offset_beyond_the_end(server: MiniServer) -> None:
    with pytest.raises(click.ClickException, match="there is no state before 999999 yet"):
        load_server(at_port(server.port), At(offset=999999))


def test_a_server_that_is_not_there_is_named() -> None:
    with serving() as gone:
        pass
    with pytest.raises(click.ClickException, match=f"127.0.0.1:{gone.port} .*Connection refused"):
        load_server(at_port(gone.port), At())


def test_a_server_that_stops_giving_records_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_reader, "STALLED_S", 1)
    with serving() as stuck:
        partition = stuck.partition
        cut = len(partition.batches) // 2
        offset = partition.batches[cut].first
        original = partition.read
        monkeypatch.setattr(
            partition,
            "read",
            lambda at, size, how: (
                Read((), 0, lambda: None) if at >= offset else original(at, 1, how)
            ),
        )
        with pytest.raises(
            click.ClickException,
            match=rf"no records from offset \d+ on, of {partition.high_watermark}, for 1 s",
        ):
            load_server(at_port(stuck.port), At())


def test_log_start_that_moves_during_the_read_is_reported(
    server: MiniServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention on a followed directory: the first read may be of an older snapshot."""
    original, asked = TopicReader.bounds, []

    async def bounds(self: TopicReader, partition: int) -> tuple[int, int]:
        asked.append(partition)
        first, end = await original(self, partition)
        return (first if len(asked) == 1 else first + 5), end

    monkeypatch.setattr(TopicReader, "bounds", bounds)
    with pytest.raises(click.ClickException, match="start of its log moved"):
        load_server(at_port(server.port), At())


@needs_shared
def test_a_log_that_starts_at_a_snapshot(logs: Any) -> None:
    """The whole server, with the snapshot's records below the start."""
    source: Path = logs("p-one-segments") / "nodes" / "7"
    with gateway("--log-dir", str(source)) as running:
        where = Server(parse_addresses(running.bootstrap), ClientSecurity())
        for at in (At(), At(offset=985), At(offset=986), At(offset=1100), At(offset=1145)):
            assert same(load_server(where, at), load_files([source], at)), at
        last = load_files([source], At(offset=1100)).timestamp
        assert last is not None
        assert same(load_server(where, At(time_ms=last)), load_files([source], At(time_ms=last)))
        for early in (At(offset=984), At(offset=950), At(offset=0), At(time_ms=1)):
            with pytest.raises(click.ClickException, match="log starts at offset 985"):
                load_server(where, early)


@needs_shared
def test_log_without_a_served_snapshot_has_no_state(logs: Any, tmp_path: Path) -> None:
    source: Path = logs("p-one-segments") / "nodes" / "7"
    config = tmp_path / "kwire.properties"
    config.write_text("snapshot.prefix=false\n")
    with (
        gateway("--log-dir", str(source), "--config", str(config)) as running,
        pytest.raises(
            click.ClickException,
            match="log starts at offset 985 and the snapshot before it is not served",
        ),
    ):
        load_server(Server(parse_addresses(running.bootstrap), ClientSecurity()), At())


def test_record_below_a_snapshot_that_ends_in_its_batch_counts_once(tmp_path: Path) -> None:
    """A follower may download a snapshot that ends inside a batch of the leader's log."""
    topic = Uuid(bytes(range(16)))
    moves = [PartitionChangeRecord(topic_id=topic, leader=leader) for leader in (2, 3, 1, 2)]
    log = tmp_path / "__cluster_metadata-0"
    log.mkdir()
    (log / "00000000000000000005.log").write_bytes(_data(5, *moves))
    state = [
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        TopicRecord(name="a", topic_id=topic),
        PartitionRecord(
            topic_id=topic, replicas=[1, 2, 3], isr=[1, 2, 3], leader=3, leader_epoch=2
        ),
    ]
    (log / "00000000000000000007-0000000001.checkpoint").write_bytes(
        _control(0, 3, bytes(10) + b"\0") + _data(1, *state) + _control(4, 4, b"\0\0\0")
    )
    [partition] = kwire.image(tmp_path).partitions[topic].values()
    assert (partition.leader, partition.leader_epoch) == (2, 4)
    with gateway("--log-dir", str(tmp_path)) as running:
        where = Server(parse_addresses(running.bootstrap), ClientSecurity())
        assert same(load_server(where, At()), load_files([tmp_path], At()))
        offsets = [record.offset for record in kwire.follow(running.bootstrap, until_end=True)]
        assert offsets == [3, 4, 5, 7, 8]


def _data(base: int, *messages: Message) -> bytes:
    values = [encode_metadata_record(message, message.VERSIONS[0]) for message in messages]
    records = [
        Record(offset=base + at, timestamp=1, key=None, value=value)
        for at, value in enumerate(values)
    ]
    return encode_batch(records, partition_leader_epoch=1)


def _control(offset: int, kind: int, value: bytes) -> bytes:
    record = Record(offset=offset, timestamp=1, key=bytes([0, 0, 0, kind]), value=value)
    return encode_batch([record], partition_leader_epoch=1, is_control=True)
