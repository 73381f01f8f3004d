"""The broker of one node that is killed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tools.broker_kills.reading import CLIENT_S, PARTITIONS
from tools.gateway_process import Gateway, launch, wait_until_ready
from tools.process import PATIENCE_S, Process, lasting_ports

#: Segments as short as Kafka allows, so that kills meet the beginning of new ones.
SEGMENT_BYTES: Final = 1 << 20
#: How often segments are looked for that are too old, and those that can be compacted, ms.
_RETENTION_MS: Final = 1000
_CLEANER_MS: Final = 200


class Server:
    """``kwire serve`` with its data in ``directory``, at the same ports after each start."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._data = directory / "data"
        self._starts = 0
        self._ports = lasting_ports(2)
        self._running: Gateway | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    def log_directory(self, topic: str, partition: int) -> Path:
        """Return where the log of a partition is."""
        return self._data / f"{topic}-{partition}"

    def start(self) -> None:
        process = self._launch()
        self._running = wait_until_ready(process, PATIENCE_S, time.monotonic())

    def start_and_kill(self, after_s: float) -> None:
        """Kill a process ``after_s`` from its start, whether it is ready by then or not."""
        process = self._launch()
        time.sleep(after_s)
        process.kill()

    def _launch(self) -> Process:
        self._starts += 1
        scratch = self._directory / f"start-{self._starts}"
        scratch.mkdir()
        controller = f"CONTROLLER://127.0.0.1:{self._ports[1]}"
        listeners = f"PLAINTEXT://{self.bootstrap},{controller}"
        interval = ["--log-retention-check-interval-ms", str(_RETENTION_MS)]
        return launch(scratch, "--data-dir", str(self._data), "--listeners", listeners, *interval)

    def create(self, topics: Mapping[str, Mapping[str, str]]) -> None:
        """Create topics, by name with their configs."""
        assert self._running is not None
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        cleaner = ConfigEntry(
            "log.cleaner.backoff.ms",
            str(_CLEANER_MS),
            incremental_operation=AlterConfigOpType.SET,
        )
        broker = ConfigResource(
            ResourceType.BROKER,
            str(self._running.ready["node_id"]),
            incremental_configs=[cleaner],
        )
        for changed in admin.incremental_alter_configs([broker]).values():
            changed.result(CLIENT_S)
        made = [
            NewTopic(
                name, PARTITIONS, 1, config={"segment.bytes": str(SEGMENT_BYTES), **dict(config)}
            )
            for name, config in topics.items()
        ]
        for created in admin.create_topics(made).values():
            created.result(CLIENT_S)

    def kill(self) -> None:
        assert self._running is not None
        self._running.process.kill()

    def stop(self) -> None:
        if self._running is not None:
            self._running.process.stop()
