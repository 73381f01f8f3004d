"""kwire's broker under a controller of Kafka: it is registered, takes what stock clients produce,
forwards their changes, and has everything again after a kill. Kafka's controller logs no error.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.clients import need_clients
from tests.interop.quorum import need_kafka
from tests.waiting import PATIENCE_S
from tools import java, java_tools
from tools.gateway_process import KWIRE, Gateway, launch, ready_line, wait_until_ready
from tools.kafka import Cluster, kafka
from tools.process import Process

NODE_ID = 11
TOPIC = "data"
CONFIGS = "kafka.admin.ConfigCommand"
#: A killed broker's successor is refused for as long.
PROPERTIES = {"broker.session.timeout.ms": "6000"}


class Broker(NamedTuple):
    """A broker of kwire, formatted by ``kwire format``."""

    scratch: Path
    properties: Path

    def launch(self, *more: str) -> Process:
        # A directory for the output of each process: the ready line must be its own.
        output = Path(tempfile.mkdtemp(dir=self.scratch))
        return launch(output, "--config", str(self.properties), *more)

    def start(self) -> Gateway:
        return wait_until_ready(self.launch(), PATIENCE_S, time.monotonic())


def formatted(cluster: Cluster, scratch: Path) -> Broker:
    """Write the properties of a broker as Kafka names them, and format its directory."""
    properties = scratch / "broker.properties"
    values = {
        "process.roles": "broker",
        "node.id": str(NODE_ID),
        "controller.quorum.bootstrap.servers": cluster.controllers,
        "controller.listener.names": "CONTROLLER",
        "data.dir": str(scratch / "data"),
        "broker.heartbeat.interval.ms": "500",
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    line = [*KWIRE, "format", "--cluster-id", cluster.cluster_id, "--config", str(properties)]
    subprocess.run(line, check=True, capture_output=True, timeout=PATIENCE_S)
    return Broker(scratch, properties)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_kafka()
    need_clients()
    with kafka(brokers=0, controllers=1, properties=PROPERTIES) as running:
        yield running


def read(bootstrap: str, count: int) -> list[str]:
    """Read in a group: the broker has ``__consumer_offsets`` created by Kafka's controller."""
    line = ["kcat", "-b", bootstrap, "-G", "readers", "-X", "auto.offset.reset=earliest"]
    line += ["-c", str(count), TOPIC]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return sorted(done.stdout.splitlines())


def test_broker_serves_stock_clients_and_has_everything_after_a_kill(
    cluster: Cluster, tmp_path: Path
) -> None:
    broker = formatted(cluster, tmp_path)
    running = broker.start()
    ask = ["--bootstrap-server", running.bootstrap, "--topic", TOPIC]
    create = ["--create", "--partitions", "3", "--replication-factor", "1"]
    java_tools.run_tool(java.TOPICS, [*ask, *create])
    values = sorted(f"{client}-{number}" for client in ("kcat", "java") for number in range(300))
    of_kcat, of_java = ("".join(f"{one}\n" for one in values if one[0] == first) for first in "kj")
    line = ["kcat", "-b", running.bootstrap, "-P", "-t", TOPIC]
    subprocess.run(line, input=of_kcat, text=True, check=True, timeout=PATIENCE_S)
    # Idempotent: its producer id is of a block that Kafka's controller allocates.
    line = java.command(java.CONSOLE_PRODUCER, ask)
    subprocess.run(line, input=of_java, text=True, check=True, timeout=PATIENCE_S)
    configs = ["--bootstrap-server", running.bootstrap, "--entity-type", "topics"]
    change = ["--entity-name", TOPIC, "--alter", "--add-config", "retention.ms=86400000"]
    java_tools.run_tool(CONFIGS, [*configs, *change])
    running.process.kill()

    again = broker.start()
    try:
        assert read(again.bootstrap, len(values)) == values
        topic = ["--bootstrap-server", again.bootstrap, "--topic", TOPIC, "--describe"]
        described = java_tools.run_tool(java.TOPICS, topic)
        assert "retention.ms=86400000" in described
        assert f"Leader: {NODE_ID}" in described
        _refuse_a_second_process(cluster, tmp_path)
        assert again.process.stop() == 0
    finally:
        again.process.kill()
    for node in cluster.nodes:
        log = node.running_process().output_end(sys.maxsize)
        assert " ERROR " not in log, [one for one in log.splitlines() if " ERROR " in one]


def _refuse_a_second_process(cluster: Cluster, tmp_path: Path) -> None:
    """Start another process with the node id of the broker that runs: it ends, and says why."""
    (tmp_path / "second").mkdir()
    second = formatted(cluster, tmp_path / "second")
    process = second.launch("--initial-broker-registration-timeout-ms", "2000")
    process.wait_until(lambda: not process.running(), PATIENCE_S)
    output = process.output_end()
    assert "DUPLICATE_BROKER_REGISTRATION" in output and ready_line(process) is None, output
