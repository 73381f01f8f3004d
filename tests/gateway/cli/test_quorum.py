"""``kwire quorum describe`` against peers that answer as Kafka's brokers and controllers do, and as
none should.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner, Result

import kwire
from gateway.cli import main, quorum_view
from gateway.cli.quorum_ask import Quorum
from kwire import Message
from kwire.frame import FrameSplitter, frame
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kwire.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kwire.uuid import Uuid

_VERSIONS, _QUORUM, _CLUSTER = 18, 55, 60
_DIRECTORY = Uuid(bytes(range(16)))


@dataclass
class Kafka:
    """A listener that answers by api key; each function is given the request. ``asked``: (api key,
    version, request).
    """

    answers: dict[int, Callable[[Any], Message]]
    versions: dict[int, tuple[int, int]]
    port: int = 0
    asked: list[tuple[int, int, Any]] = field(default_factory=list)

    def talk(self, connection: socket.socket) -> None:
        splitter = FrameSplitter(1 << 20)
        with connection, suppress(OSError):
            while data := connection.recv(1 << 16):
                splitter.feed(data)
                while (request := splitter.next_frame()) is not None:
                    connection.sendall(self.answer(request))

    def answer(self, request: bytes) -> bytes:
        header, at = decode_request_header(request)
        key, version = header.request_api_key, header.request_api_version
        body, _ = kwire.request_type(key).decode_from(request, version, at)
        if key == _VERSIONS:
            offered = [
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.versions.items()
            ]
            answer: Message = ApiVersionsResponse(api_keys=offered)
        else:
            self.asked.append((key, version, body))
            answer = self.answers[key](body)
        return frame(
            encode_response_header(key, version, header.correlation_id), answer.encode(version)
        )


@contextmanager
def kafka(answers: dict[int, Callable[[Any], Message]], newest: int = 2) -> Iterator[Kafka]:
    listener = socket.create_server(("127.0.0.1", 0))
    peer = Kafka(
        answers,
        {_VERSIONS: (0, 4), _QUORUM: (0, newest), _CLUSTER: (0, newest)},
        listener.getsockname()[1],
    )

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=peer.talk, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield peer
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def replica(
    replica_id: int, end: int, fetched: int = 1_000, caught_up: int = 900, **more: Any
) -> ReplicaState:
    return ReplicaState(
        replica_id=replica_id,
        log_end_offset=end,
        last_fetch_timestamp=fetched,
        last_caught_up_timestamp=caught_up,
        **more,
    )


def partition(**more: Any) -> PartitionData:
    values: dict[str, Any] = {
        "leader_id": 2,
        "leader_epoch": 7,
        "high_watermark": 99,
        "current_voters": [
            replica(1, 90, replica_directory_id=_DIRECTORY),
            replica(2, 100, 5_000, 5_000),
            replica(3, 98, 4_900, 4_800),
        ],
        "observers": [replica(101, 99, -1, -1)],
    }
    return PartitionData(**{**values, **more})


def described(one: PartitionData | None = None) -> DescribeQuorumResponse:
    topic = TopicData(topic_name="__cluster_metadata", partitions=[one or partition()])
    node = Node(
        node_id=1,
        listeners=[
            Listener(name="CONTROLLER", host="c1", port=9093),
            Listener(name="X", host="::1", port=1),
        ],
    )
    return DescribeQuorumResponse(topics=[topic], nodes=[node])


def cluster(**more: Any) -> DescribeClusterResponse:
    return DescribeClusterResponse(cluster_id="MkU3OEVBNTcwNTJENDM2Qk", **more)


def active_at(port: int, controller_id: int = 2) -> DescribeClusterResponse:
    dead = DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=1)
    return cluster(
        controller_id=controller_id,
        brokers=[dead, DescribeClusterBroker(broker_id=2, host="127.0.0.1", port=port)],
    )


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["quorum", "describe", *arguments])


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_status_as_kafka_prints_it() -> None:
    with kafka({_CLUSTER: lambda _: cluster(), _QUORUM: lambda _: described()}) as peer:
        result = run("--status", "-b", f"127.0.0.1:{peer.port}", "-o", "text")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "ClusterId:              MkU3OEVBNTcwNTJENDM2Qk",
        "LeaderId:               2",
        "LeaderEpoch:            7",
        "HighWatermark:          99",
        "MaxFollowerLag:         10",
        "MaxFollowerLagTimeMs:   4100",
        'CurrentVoters:          [{"id": 1, "directoryId": "AAECAwQFBgcICQoLDA0ODw", "endpoints": '
        '["CONTROLLER://c1:9093", "X://[::1]:1"]}, {"id": 2}, {"id": 3}]',
        'CurrentObservers:       [{"id": 101}]',
    ]
    assert [(key, version) for key, version, _ in peer.asked] == [(_CLUSTER, 2), (_QUORUM, 2)]
    assert peer.asked[0][2].endpoint_type == 1


def test_replication_as_kafka_prints_it() -> None:
    with kafka({_CLUSTER: lambda _: cluster(), _QUORUM: lambda _: described()}) as peer:
        result = run("--replication", "-b", f"127.0.0.1:{peer.port}", "-o", "text")
    assert [line.split("\t") for line in result.stdout.splitlines()] == [
        [
            *("NodeId", "DirectoryId           ", "LogEndOffset", "Lag"),
            "LastFetchTimestamp",
            "LastCaughtUpTimestamp",
            "Status  ",
            "",
        ],
        [
            *("2     ", "AAAAAAAAAAAAAAAAAAAAAA", "100         ", "0  "),
            f"{5000:<18}",
            f"{5000:<21}",
            "Leader  ",
            "",
        ],
        [
            *("1     ", "AAECAwQFBgcICQoLDA0ODw", "90          ", "10 "),
            f"{1000:<18}",
            f"{900:<21}",
            "Follower",
            "",
        ],
        [
            *("3     ", "AAAAAAAAAAAAAAAAAAAAAA", "98          ", "2  "),
            f"{4900:<18}",
            f"{4800:<21}",
            "Follower",
            "",
        ],
        [
            *("101   ", "AAAAAAAAAAAAAAAAAAAAAA", "99          ", "1  "),
            f"{-1:<18}",
            f"{-1:<21}",
            "Observer",
            "",
        ],
    ]


def test_on_a_pipe_it_is_json() -> None:
    with kafka({_CLUSTER: lambda _: cluster(), _QUORUM: lambda _: described()}) as peer:
        where = ("-b", f"127.0.0.1:{peer.port}")
        [status], replicas = lines(run("--status", *where)), lines(run("--replication", *where))
    assert (status["leaderId"], status["maxFollowerLag"], status["currentObservers"]) == (
        2,
        10,
        [{"id": 101}],
    )
    assert [(one["nodeId"], one["lag"], one["status"]) for one in replicas] == [
        (2, 0, "Leader"),
        (1, 10, "Follower"),
        (3, 2, "Follower"),
        (101, 1, "Observer"),
    ]


def test_times_for_people() -> None:
    quorum = Quorum("id", partition(), [])
    text = quorum_view.replication_text(quorum, now_ms=5_000)
    cells = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines()[1:]]
    assert [row[4:6] for row in cells] == [
        ["0 ms ago", "0 ms ago"],
        ["4000 ms ago", "4100 ms ago"],
        ["100 ms ago", "200 ms ago"],
        ["-1", "-1"],
    ]


@pytest.mark.parametrize(
    ("voters", "expected"),
    [
        ([replica(2, 100)], (0, 0)),
        ([replica(2, 100), replica(1, 100, 50, 50)], (0, 0)),
        ([replica(1, 100, 50, 50), replica(2, 100, 950, 950)], (0, 900)),
        ([replica(2, 100, 950, 950), replica(1, 99, 50, -1)], (1, -1)),
        ([replica(1, 90), replica(3, 95)], (5, -1)),  # the leader was just removed
        ([], (0, 0)),
    ],
)
def test_the_last_voters_lag(voters: Sequence[ReplicaState], expected: tuple[int, int]) -> None:
    status = quorum_view.status(
        Quorum("id", partition(current_voters=list(voters), observers=[]), [])
    )
    assert (status["maxFollowerLag"], status["maxFollowerLagTimeMs"]) == expected


def test_a_controller_that_is_not_active_names_the_one_that_is() -> None:
    with (
        kafka({_QUORUM: lambda _: described()}) as leader,
        kafka({_CLUSTER: lambda _: active_at(leader.port)}) as follower,
    ):
        [status] = lines(run("--status", "--bootstrap-controller", f"127.0.0.1:{follower.port}"))
    assert status["leaderEpoch"] == 7
    assert [(key, request.endpoint_type) for key, _, request in follower.asked] == [(_CLUSTER, 2)]
    assert [key for key, _, _ in leader.asked] == [_QUORUM]


def test_active_controller_gets_both_requests_on_one_connection() -> None:
    answers: dict[int, Callable[[Any], Message]] = {_QUORUM: lambda _: described()}
    with kafka(answers) as leader:
        answers[_CLUSTER] = lambda _: active_at(leader.port)
        [status] = lines(run("--status", "--bootstrap-controller", f"127.0.0.1:{leader.port}"))
    assert status["clusterId"] == "MkU3OEVBNTcwNTJENDM2Qk"
    assert [key for key, _, _ in leader.asked] == [_CLUSTER, _QUORUM]


def test_an_election_is_waited_for() -> None:
    answers = [active_at(1, -1), active_at(1, -1)]
    refusals = [described(PartitionData(error_code=6))]
    with (
        kafka({_QUORUM: lambda _: refusals.pop() if refusals else described()}) as leader,
        kafka(
            {_CLUSTER: lambda _: answers.pop() if answers else active_at(leader.port)}
        ) as follower,
    ):
        [status] = lines(run("--status", "--bootstrap-controller", f"127.0.0.1:{follower.port}"))
    assert status["leaderId"] == 2
    assert len(follower.asked) == 4


def test_next_server_is_tried_when_one_is_down() -> None:
    with kafka({_CLUSTER: lambda _: cluster(), _QUORUM: lambda _: described()}) as peer:
        [status] = lines(run("--status", "-b", f"127.0.0.1:1,127.0.0.1:{peer.port}"))
    assert status["leaderId"] == 2


def test_old_servers_know_less() -> None:
    ends = PartitionData(
        leader_id=2,
        current_voters=[ReplicaState(replica_id=one, log_end_offset=9) for one in (1, 2, 3)],
    )
    old = DescribeQuorumResponse(topics=described(ends).topics)
    with kafka({_CLUSTER: lambda _: cluster(), _QUORUM: lambda _: old}, newest=0) as peer:
        where = ("-b", f"127.0.0.1:{peer.port}")
        [status], replicas = lines(run("--status", *where)), lines(run("--replication", *where))
    assert (status["maxFollowerLagTimeMs"], status["currentVoters"]) == (
        -1,
        [{"id": 1}, {"id": 2}, {"id": 3}],
    )
    assert {one["lastFetchTimestamp"] for one in replicas} == {-1}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (
            {_CLUSTER: cluster(error_code=31)},
            "CLUSTER_AUTHORIZATION_FAILED; allow the principal to Describe the cluster",
        ),
        (
            {_CLUSTER: cluster(error_code=114, error_message="not here")},
            "MISMATCHED_ENDPOINT_TYPE: not here; of --boot",
        ),
        ({_CLUSTER: cluster(error_code=4242)}, "error 4242"),
        (
            {_CLUSTER: cluster(), _QUORUM: DescribeQuorumResponse()},
            "does not describe the one quorum",
        ),
        (
            {_CLUSTER: cluster(), _QUORUM: DescribeQuorumResponse(error_code=31)},
            "CLUSTER_AUTHORIZATION_FAILED",
        ),
        (
            {_CLUSTER: cluster(), _QUORUM: described(PartitionData(error_code=3))},
            "UNKNOWN_TOPIC_OR_PARTITION",
        ),
    ],
)
def test_refused_request_is_reported_in_a_sentence(answers: dict[int, Message], words: str) -> None:
    with kafka({key: mock.Mock(return_value=answer) for key, answer in answers.items()}) as peer:
        result = run("--status", "-b", f"127.0.0.1:{peer.port}")
    assert result.exit_code == 1
    assert f"127.0.0.1:{peer.port}" in result.output
    assert words in result.output


def test_a_quorum_without_a_leader_is_given_up_in_time() -> None:
    with kafka({_CLUSTER: lambda _: active_at(1, -1)}) as peer:
        result = run(
            "--status", "--bootstrap-controller", f"127.0.0.1:{peer.port}", "--timeout", "3"
        )
    assert (result.exit_code, "knows no active controller" in result.output) == (1, True)
    assert len(peer.asked) > 1


def test_unreachable_and_silent_servers_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        result = run("--status", "-b", f"127.0.0.1:1,127.0.0.1:{port}", "--timeout", "1")
    assert result.exit_code == 1
    assert "127.0.0.1:1 " in result.output
    assert f"127.0.0.1:{port}" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["-b", "localhost:9092"],
        ["--status"],
        ["--status", "-b", "localhost:9092", "--bootstrap-controller", "localhost:9093"],
        ["--status", "--bootstrap-controller", "localhost"],
        ["--status", "-b", "localhost:port"],
    ],
)
def test_incomplete_or_contradicting_command_line_is_refused(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.output


def test_unusable_client_properties_are_reported(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_PLAIN\n")
    result = run("--status", "-b", "localhost:9092", "--command-config", str(config))
    assert result.exit_code == 1
    assert "security.protocol" in result.output
