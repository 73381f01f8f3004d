"""meta.properties, partition.metadata, leader-epoch-checkpoint and quorum-state: Kafka's own, and
damaged ones.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.files.leader_epoch_checkpoint import parse_leader_epochs, read_leader_epochs
from gateway.log.files.meta_properties import (
    MetaProperties,
    parse_meta_properties,
    read_meta_properties,
)
from gateway.log.files.partition_metadata import parse_topic_id, read_topic_id
from gateway.log.files.quorum_state import parse_quorum_state, read_quorum_state
from kwire.errors import DecodeError
from kwire.messages.quorum_state_data import Voter
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from tests.shared import LOG_NAMES, needs_shared, vectors

READERS: list[Callable[[Path], Any]] = [
    read_meta_properties,
    read_topic_id,
    read_leader_epochs,
    read_quorum_state,
]
PARSERS: list[Callable[[bytes], Any]] = [
    parse_meta_properties,
    parse_topic_id,
    parse_leader_epochs,
    parse_quorum_state,
]


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_files_of_real_nodes(logs: Any, name: str) -> None:
    nodes = sorted(logs(name).glob("**/nodes/*"))
    assert nodes, "a captured cluster has nodes"
    for path in nodes:
        meta = read_meta_properties(path / "meta.properties")
        assert meta.version == 1
        assert meta.node_id == int(path.name)
        assert meta.cluster_id and len(meta.cluster_id) == 22
        assert (
            read_topic_id(path / "__cluster_metadata-0" / "partition.metadata") == METADATA_TOPIC_ID
        )
        version, state = read_quorum_state(path / "__cluster_metadata-0" / "quorum-state")
        newest = read_leader_epochs(path / "__cluster_metadata-0" / "leader-epoch-checkpoint")[-1][
            0
        ]
        assert state.leader_epoch >= newest
        assert (state.current_voters != []) == (version == 0)


def test_meta_properties_are_java_properties() -> None:
    data = (
        b"#Sat Nov 21\r\nversion=1\ncluster.id : a\\:b\\u0041\nnode.id=7\n"
        b"directory.id=AAAAAAAAAAAAAAAAAAAAAQ\nother=\xe9\n"
    )
    assert parse_meta_properties(data) == MetaProperties(1, "a:bA", 7, METADATA_TOPIC_ID)


def test_meta_properties_of_version_0_have_a_broker_id() -> None:
    assert parse_meta_properties(b"version=0\nbroker.id=3\n") == MetaProperties(0, None, 3, None)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "missing"),
        (b"version=2\ncluster.id=x\nnode.id=1", "not 0 or 1"),
        (b"version=one", "not a number"),
        (b"version=1\ncluster.id=x", "must have"),
        (b"version=1\nnode.id=1", "must have"),
        (b"version=1\ncluster.id=x\nnode.id=\xb2", "not a number"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=zz", "uuid"),
        (b"version=1\ncluster.id=\\uzzzz\nnode.id=1", "uzzzz"),
        (b"a" * 70_000, "no meta.properties"),
    ],
)
def test_damaged_meta_properties(data: bytes, what: str) -> None:
    with pytest.raises(DecodeError, match=what):
        parse_meta_properties(data)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "two lines"),
        (b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "version 1"),
        (b"version: 0\ntopic_id: AAAA", "uuid"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\nmore", "two lines"),
        (b"version: 0\ntopic_id: \xff", "uuid|two lines"),
    ],
)
def test_damaged_partition_metadata(data: bytes, what: str) -> None:
    with pytest.raises(DecodeError, match=what):
        parse_topic_id(data)


def test_leader_epochs() -> None:
    assert parse_leader_epochs(b"0\n2\n3 1795\n4 2022\n") == [(3, 1795), (4, 2022)]
    assert parse_leader_epochs(b"0\n0\n") == []


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"1\n0\n", "version 0"),
        (b"0\n2\n3 1795\n", "announces"),
        (b"0\n1\n3 1795\n4 2022\n", "announces"),
        (b"0\n1\n3\n", "line 3"),
        (b"0\n1\n3 x\n", "line 3"),
        (b"0\n1\n-1 5\n", "line 3"),
        (b"0\n2\n4 5\n3 6\n", "follows"),
        (b"0\n2\n3 6\n4 5\n", "follows"),
    ],
)
def test_damaged_leader_epochs(data: bytes, what: str) -> None:
    with pytest.raises(DecodeError, match=what):
        parse_leader_epochs(data)


@needs_shared
@pytest.mark.parametrize("kafka", ["4.3.1", "4.4.0"])
def test_quorum_state_as_kafka_reads_it(kafka: str) -> None:
    verdicts = {True: 0, False: 0}
    for line in vectors("quorumstate", kafka):
        text, accepted = line["text"].encode(), line.get("ok", True)
        verdicts[accepted] += 1
        if not accepted:
            with pytest.raises(DecodeError):
                parse_quorum_state(text)
            continue
        version, state = parse_quorum_state(text)
        said = json.JSONDecoder().raw_decode(line["text"])[0]
        assert version == said["data_version"]
        assert f"epoch={state.leader_epoch}," in line["readBack"]
        assert (state.leader_id, state.voted_id) == (said["leaderId"], said["votedId"])
        assert state.current_voters == [
            Voter(voter_id=one["voterId"]) for one in said.get("currentVoters", [])
        ]
        assert str(state.voted_directory_id) == said.get("votedDirectoryId", str(ZERO_UUID))
    assert verdicts[True] > 15 and verdicts[False] >= 8


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\x00\xff garbage")
    for read in READERS:
        with pytest.raises(DecodeError) as error:
            read(path)
        assert error.value.path == str(path)


@given(
    st.binary(max_size=200)
    | st.text('0123456789 \n:=-{}"abversion.topic_idcluster', max_size=200).map(str.encode)
)
def test_garbage_raises_decode_errors_only(data: bytes) -> None:
    for parse in PARSERS:
        try:
            parse(data)
        except DecodeError as error:
            assert error.reason


def test_uuid_of_the_directory() -> None:
    directory_id = Uuid(bytes(range(16)))
    data = f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={directory_id}".encode()
    assert parse_meta_properties(data).directory_id == directory_id


def test_files_of_absurd_size_are_not_parsed() -> None:
    for parse in (parse_quorum_state, parse_leader_epochs):
        with pytest.raises(DecodeError, match="more than"):
            parse(b"0" * (17 * 1024 * 1024))
