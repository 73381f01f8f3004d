"""Asks every node for the leader during a run, and reads their quorum-state files; the checker
compares the answers.
"""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, cast

from kwire.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kwire.protocol import CLUSTER_METADATA_TOPIC
from tools.consistency_checker.history import Leadership
from tools.kafka import Cluster
from tools.kafka_files import Node
from tools.process import ProcessError
from tools.wire_client import WireClient

_PAUSE_S = 0.05
_TIMEOUT_S = 1.0
_VERSION = 1


class Watch:
    """``with Watch(cluster) as watch``: a thread for each controller, and one for the files.
    ``seen`` grows; nodes may stop and start.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.seen: list[Leadership] = []
        self._cluster = cluster
        self._stop = threading.Event()
        self._files: dict[int, tuple[int, int]] = {}
        controllers = [node for node in cluster.nodes if node.is_controller()]
        self._threads = [
            threading.Thread(target=self._ask_again, args=(node,), daemon=True)
            for node in controllers
        ]
        self._threads.append(
            threading.Thread(target=self._look_again, args=(controllers,), daemon=True)
        )

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask_again(self, node: Node) -> None:
        while not self._stop.is_set():
            with (
                contextlib.suppress(OSError, EOFError),
                WireClient(node.controller_address, _TIMEOUT_S) as client,
            ):
                while not self._stop.wait(_PAUSE_S):
                    if (said := ask(client, node)) is not None:
                        self.seen.append(said)
            self._stop.wait(_PAUSE_S)

    def _look_again(self, controllers: list[Node]) -> None:
        while not self._stop.wait(_PAUSE_S / 2):
            for node in controllers:
                # A file may be replaced at any moment, and is missing while a node gets a new disk.
                with contextlib.suppress(OSError, ValueError):
                    state = node.quorum_state()
                    said = state["leaderEpoch"], state["leaderId"]
                    if self._files.get(node.node_id) != said:
                        self._files[node.node_id] = said
                        self.seen.append(Leadership(f"quorum-state of node {node.node_id}", *said))


def ask(client: WireClient, node: Node) -> Leadership | None:
    """Return the node's response to DescribeQuorum; None if it does not answer as the leader.
    Raises OSError, EOFError.
    """
    topic = TopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[PartitionData(partition_index=0)]
    )
    asked = time.monotonic()
    answer = cast(Any, client.call(DescribeQuorumRequest(topics=[topic]), _VERSION))
    if answer.error_code or not answer.topics:
        return None
    partition = answer.topics[0].partitions[0]
    if partition.error_code:
        return None
    by_itself = partition.leader_id == node.node_id
    return Leadership(
        f"node {node.node_id}",
        partition.leader_epoch,
        partition.leader_id,
        asked if by_itself else None,
        partition.high_watermark if by_itself and partition.high_watermark >= 0 else None,
    )


def leader_end(node: Node) -> int:
    """The high watermark of a node that leads. Raises OSError, EOFError, ProcessError when it does
    not.
    """
    with WireClient(node.controller_address) as client:
        said = ask(client, node)
    if said is None or said.high_watermark is None:
        raise ProcessError(f"node {node.node_id} does not answer as the leader")
    return said.high_watermark


class Questions:
    """Sends a paused node a request every 50 ms; the answers come when it continues. ``with
    Questions(node) as asked``.
    """

    def __init__(self, node: Node, count: int = 10, timeout_s: float = 20) -> None:
        self._node, self._count, self._timeout_s = node, count, timeout_s
        self._pool = ThreadPoolExecutor(count)
        self._answers: list[Future[Leadership | None]] = []

    def __enter__(self) -> Self:
        for _ in range(self._count):
            self._answers.append(self._pool.submit(self._ask))
            time.sleep(_PAUSE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def answers(self) -> list[Leadership | None]:
        """Return all answers, in the order of the requests; None for one that is not a leader's, or
        a closed connection.
        """
        return [answer.result() for answer in self._answers]

    def _ask(self) -> Leadership | None:
        with (
            contextlib.suppress(OSError, EOFError),
            WireClient(self._node.controller_address, self._timeout_s) as client,
        ):
            return ask(client, self._node)
        return None
