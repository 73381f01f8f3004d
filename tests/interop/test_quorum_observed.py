"""A gateway observes a Kafka quorum of three dynamic voters that writes every record type.

Stock consumers get the records of the leader's files, and Kafka's tool prints the same for the
gateway as for the controllers.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.log.files.meta_properties import FILE_NAME, read_meta_properties
from gateway.ports.view_topics import CHANGES, VIEWS, view_topic
from kwire.cluster import Loader
from kwire.cluster import view_offsets as offsets
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.fetch_response import FetchResponse
from kwire.protocol import CLUSTER_METADATA_PARTITION, CLUSTER_METADATA_TOPIC
from kwire.records import Record, decode_batches, decode_metadata_record
from tests.gateway.views.view_reading import Table, of_changes, state, take, take_change
from tests.interop.clients import ASSIGN, WAYS, need_clients
from tests.interop.conftest import READ
from tests.interop.quorum import (
    QUICK_ELECTIONS,
    fetched_from,
    files_of,
    first_unequal,
    need_kafka,
    observing,
    offsets_of,
    records_of,
    types_of,
    wait_for_end,
    wait_for_segments,
)
from tests.interop.reading import Reader, digest, first_difference
from tests.interop.truth import Batch
from tests.waiting import PATIENCE_S
from tools import java, java_tools
from tools.gateway_process import KWIRE, Gateway, gateway
from tools.kafka import Cluster, kafka
from tools.metadata_workload import RECORD_TYPES, node_properties, write_everything
from tools.wire_client import WireClient

_REPLICA_ID = 900
_CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka")
_SNAPSHOT_HEADER, _LEADER_CHANGE, _KRAFT_VERSION, _KRAFT_VOTERS = 3, 2, 5, 6


@dataclass
class Observed:
    """The cluster after the workload, the gateway, the records that following clients got, and
    the leader's records.
    """

    cluster: Cluster
    server: Gateway
    data_dir: Path
    readers: dict[str, Reader]
    truth: list[Batch]

    @property
    def end(self) -> int:
        """Behind the last record of the truth."""
        return self.truth[-1].last_offset + 1


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    need_clients()
    need_kafka()
    data_dir = tmp_path_factory.mktemp("observer") / "data"
    with (
        kafka(
            brokers=2,
            controllers=3,
            log_dirs=2,
            properties=QUICK_ELECTIONS,
            node_properties=node_properties,
        ) as cluster,
        gateway(*observing(cluster, data_dir, "--replica-id", str(_REPLICA_ID))) as server,
    ):
        readers = {
            way.reader.client: way.on(server.bootstrap, CLUSTER_METADATA_TOPIC)
            for way in WAYS
            if way.mode == ASSIGN
        }
        readers = {client: readers[client] for client in _CLIENTS}
        for reader in readers.values():
            reader.start()
        write_everything(cluster)
        leader = cluster.wait_for_leader()
        end = files_of(leader)[-1].last_offset + 1
        wait_for_end(server.bootstrap, end)
        truth = wait_for_segments(leader, end)
        for reader in readers.values():
            reader.read_until(len(records_of(truth)))
            reader.stop()
        yield Observed(cluster, server, data_dir, readers, truth)


def test_cluster_wrote_every_record_type(observed: Observed) -> None:
    assert not RECORD_TYPES - types_of(records_of(observed.truth))
    control = {
        int.from_bytes(record.key[2:4], "big")
        for b in observed.truth
        if b.control
        for record in b.records()
        if record.key
    }
    assert control >= {_LEADER_CHANGE, _KRAFT_VERSION, _KRAFT_VOTERS}


@pytest.mark.parametrize("client", _CLIENTS)
def test_consumer_got_each_record_once_and_in_order(observed: Observed, client: str) -> None:
    expected = records_of(observed.truth)
    seen = [record for record in observed.readers[client].records if record.offset < observed.end]
    assert not first_difference(seen, expected)
    READ.append(("observed quorum", f"{client}-assign", len(seen), digest(seen)))


def test_every_batch_has_the_bytes_of_the_leader(observed: Observed) -> None:
    start, end = offsets_of(observed.server.bootstrap)
    assert (start, end >= observed.end) == (0, True)
    fetched = fetched_from(observed.server.bootstrap, 0, observed.end)
    assert not first_unequal(
        [batch for batch in fetched if batch.last_offset < observed.end], observed.truth
    )


def test_views_are_the_state_of_the_cluster(observed: Observed) -> None:
    loader, end = Loader(), offsets.at(observed.end)
    for batch in observed.truth:
        for record in () if batch.control else batch.records():
            _, _, message = decode_metadata_record(record.value or b"")
            loader.load(message, record.offset, 0)
    expected = state(loader.image)
    tables: dict[str, Table] = {view: {} for view in expected}
    changed: dict[str, Table] = {}
    with WireClient(observed.server.bootstrap) as client:
        for view in VIEWS:
            for one in view_records(client, view, end):
                take_change(changed, one) if view == CHANGES else take(tables[view], one)
    assert tables == expected
    assert of_changes(changed) == expected


def view_records(client: WireClient, view: str, end: int) -> Iterator[Record]:
    """The records of a view below ``end``."""
    position = 0
    while position < end:
        asked = FetchPartition(partition=0, fetch_offset=position, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=view_topic(view), partitions=[asked])
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[topic])
        answer = cast(FetchResponse, client.call(request, 12))
        (found,) = answer.responses[0].partitions
        assert found.error_code == 0
        for batch in decode_batches(found.records or b""):
            position = batch.header.next_offset
            for record in () if batch.header.is_control else batch.records:
                if record.offset < end:
                    yield record


def test_kafka_dump_log_reads_the_copy(observed: Observed) -> None:
    """kafka-dump-log of the gateway's segment and of the leader's print the same lines, CRCs
    included.
    """
    leader = observed.cluster.wait_for_leader()
    dumps = []
    for directory in (observed.data_dir / CLUSTER_METADATA_PARTITION, leader.metadata_log_dir):
        arguments = ["--files", str(directory / f"{0:020d}.log"), "--cluster-metadata-decoder"]
        lines = java_tools.run_tool(java.DUMP_LOG_SEGMENTS, arguments).splitlines()
        dumps.append([line for line in lines if line.startswith(("baseOffset:", "| offset:"))])
    count = sum(len(list(batch.records())) + 1 for batch in observed.truth)
    assert len(dumps[0]) >= count
    assert dumps[0][:count] == dumps[1][:count]


#: Values that change between two descriptions of one quorum.
_MOVING = (
    "HighWatermark",
    "MaxFollowerLag",
    "MaxFollowerLagTimeMs",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
)


def status(text: str) -> dict[str, str]:
    """``describe --status`` by the names of its lines."""
    return {
        name: value.strip()
        for name, _, value in (line.partition(":") for line in text.splitlines() if line)
    }


def replication(text: str) -> list[dict[str, str]]:
    """``describe --replication`` by the names of its columns, in the order of the ids."""
    head, *rows = (
        [cell.strip() for cell in line.split("\t")] for line in text.splitlines() if "\t" in line
    )
    return sorted(
        (dict(zip(head, row, strict=True)) for row in rows),
        key=lambda row: (row["Status"], int(row["NodeId"])),
    )


def at_controllers(observed: Observed, what: str) -> str:
    return observed.cluster.controller_tool(java.METADATA_QUORUM, ["describe", what])


def at_gateway(observed: Observed, what: str) -> str:
    return java_tools.run_tool(
        java.METADATA_QUORUM, ["--bootstrap-server", observed.server.bootstrap, "describe", what]
    )


def kwire_quorum(*arguments: str) -> str:
    """The text output of ``kwire quorum describe``."""
    return run("quorum", "describe", "-o", "text", *arguments)


def run(*arguments: str) -> str:
    """The output of a kwire command, which must succeed."""
    done = subprocess.run(
        [*KWIRE, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def still(row: dict[str, str]) -> dict[str, str]:
    """The values without those that change between descriptions, each of which must be a number."""
    assert all(value.lstrip("-").isdigit() for name, value in row.items() if name in _MOVING), row
    return {name: value for name, value in row.items() if name not in _MOVING}


def test_kafka_metadata_quorum_prints_the_same_status_at_the_gateway(observed: Observed) -> None:
    before, through = (
        status(at_controllers(observed, "--status")),
        status(at_gateway(observed, "--status")),
    )
    after = status(kwire_quorum("--status", "--bootstrap-controller", observed.cluster.controllers))
    assert list(before) == list(through) == list(after)
    assert still(before) == still(through) == still(after)
    assert (
        int(before["HighWatermark"]) <= int(through["HighWatermark"]) <= int(after["HighWatermark"])
    )


def test_kafka_metadata_quorum_prints_the_same_replication_at_the_gateway(
    observed: Observed,
) -> None:
    before, through = (
        replication(at_controllers(observed, "--replication")),
        replication(at_gateway(observed, "--replication")),
    )
    ours_of_all = [
        replication(kwire_quorum("--replication", *where))
        for where in (
            *(
                ("--bootstrap-controller", node.controller_address)
                for node in observed.cluster.nodes
                if node.is_controller()
            ),
            ("-b", observed.cluster.bootstrap),
            ("-b", observed.server.bootstrap),
        )
    ]
    for one in (through, *ours_of_all):
        assert [list(row) for row in one] == [list(row) for row in before]
        assert [still(row) for row in one] == [still(row) for row in before]


def test_gateway_is_an_observer_with_its_own_directory_id(observed: Observed) -> None:
    properties = read_meta_properties(observed.data_dir / FILE_NAME)
    [row] = [
        row
        for row in replication(at_controllers(observed, "--replication"))
        if row["NodeId"] == str(_REPLICA_ID)
    ]
    assert (row["Status"], row["DirectoryId"]) == ("Observer", str(properties.directory_id))
    assert int(row["Lag"]) < 100


def lines_of(text: str) -> Sequence[str]:
    """The columns have the widths of Kafka's tool."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_kwire_quorum_describe_has_the_layout_of_kafkas_tool(observed: Observed) -> None:
    java_lines, our_lines = (
        lines_of(at_controllers(observed, "--replication")),
        lines_of(
            kwire_quorum("--replication", "--bootstrap-controller", observed.cluster.controllers)
        ),
    )
    assert java_lines[0] == our_lines[0]
    assert [len(line) for line in java_lines] == [len(line) for line in our_lines]


@pytest.mark.parametrize("endpoint_type", [1, 2], ids=["brokers", "controllers"])
def test_brokers_of_the_observed_cluster_are_served(observed: Observed, endpoint_type: int) -> None:
    """DescribeCluster through the gateway and at a node of Kafka."""
    request, told = DescribeClusterRequest(endpoint_type=endpoint_type), []
    kafka_node = (
        observed.cluster.nodes[-1].broker_address
        if endpoint_type == 1
        else observed.cluster.nodes[0].controller_address
    )
    for address in (kafka_node, observed.server.bootstrap):
        with WireClient(address) as client:
            answer = cast(Any, client.call(request, 1))
            told.append(
                (
                    answer.error_code,
                    answer.cluster_id,
                    {(one.broker_id, one.host, one.port) for one in answer.brokers},
                )
            )
    assert told[0] == told[1]
    assert len(told[0][2]) == (2 if endpoint_type == 1 else 3)


def test_state_is_the_image_of_the_leaders_log(observed: Observed) -> None:
    """``kwire state`` of the leader's files, of the gateway's, and of what the gateway serves."""
    leader = observed.cluster.wait_for_leader()
    sources = (
        [str(leader.metadata_log_dir)],
        [str(observed.data_dir)],
        ["-b", observed.server.bootstrap],
    )
    states = [
        json.loads(run("state", *source, "--at", str(observed.end), "-o", "json"))
        for source in sources
    ]
    assert {"orders", "by-hand", "passing-4"} <= states[0]["topics"]["byName"].keys()
    # The last record may be that of an election, of which a consumer learns neither time nor epoch.
    for name in ("time", "epoch"):
        leaders, copied, consumed = (one["provenance"].pop(name) for one in states)
        assert leaders == copied
        assert consumed == leaders or observed.truth[-1].control
    assert states[0] == states[1] == states[2]
