"""Starts brokers again that end by themselves, as the service manager of a host does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from tools.kafka import Cluster, Node

_PAUSE_S: Final = 0.1


@contextlib.contextmanager
def kept_running(cluster: Cluster, nodes: Sequence[Node], restarted: list[int]) -> Iterator[None]:
    """Start nodes again that ended, and add the id of each to ``restarted``, in a thread. A node
    that the caller killed stays down.
    """
    ends = threading.Event()

    def run() -> None:
        while not ends.wait(_PAUSE_S):
            for node in nodes:
                process = node.process
                if process is not None and not process.running():
                    restarted.append(node.node_id)
                    cluster.start_node(node)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
