"""The partitions of a broker whose logs cannot be used."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from tests.gateway.server.broker.test_broker_node import broker, produce, unfenced, with_topic
from tests.gateway.server.harness import run
from tests.waiting import until_async


async def _log_breaks(directory: Path) -> None:
    async with broker(directory) as node:
        await with_topic(node)
        await with_topic(node, "u")
        await produce(node, b"a")
    shutil.rmtree(directory / "t-0")
    (directory / "t-0").write_bytes(b"")
    async with broker(directory) as node:
        await unfenced(node)
        replicas = node.ready.services.replicas
        assert replicas is not None
        await until_async(lambda: len(replicas.offline) == 1, "one of two logs is not open")
        assert [one.directory.name for one in replicas.offline] == ["t-0"]
        (problem,) = replicas.problems()
        assert "t-0" in str(problem)
        await node.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), 6)
        await until_async(lambda: not replicas.offline, "the topic is gone")
        assert replicas.problems() == ()


def test_log_that_cannot_be_opened_is_offline_until_its_topic_is_deleted(tmp_path: Path) -> None:
    run(partial(_log_breaks, tmp_path))
