"""Kafka's own ``kafka-consumer-groups`` against our groups."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import kwire
from tests.gateway.handlers.world import build
from tools import java, java_tools
from tools.gateway_process import gateway
from tools.wire_client import WireClient

TOPIC = "__cluster_metadata"

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka's tools need java"),
]


def test_list_describe_reset_delete() -> None:
    with gateway() as server:

        def tool(*arguments: str) -> list[list[str]]:
            said = java_tools.run_tool(
                java.CONSUMER_GROUPS, ["--bootstrap-server", server.bootstrap, *arguments]
            )
            return [line.split() for line in said.splitlines() if line.strip()]

        partition: dict[str, Any] = {"partition_index": 0, "committed_offset": 6}
        request = {"group_id": "g", "topics": [{"name": TOPIC, "partitions": [partition]}]}
        with WireClient(server.bootstrap) as client:
            client.call(build(kwire.request_type(8), request), 9)
        assert tool("--list", "--state")[1:] == [["g", "Empty"]]
        end = str(server.ready["high_watermark"])
        assert tool("--describe", "--group", "g")[-1][:5] == ["g", TOPIC, "0", "6", end]
        reset = tool(
            "--group", "g", "--reset-offsets", "--to-offset", "100", "--topic", TOPIC, "--execute"
        )
        assert reset[-1] == ["g", TOPIC, "0", "100"]
        assert tool("--describe", "--group", "g")[-1][3] == "100"
        assert tool("--delete-offsets", "--group", "g", "--topic", TOPIC)[-1] == [
            TOPIC,
            "0",
            "Successful",
        ]
        request["group_id"] = "h"
        with WireClient(server.bootstrap) as client:
            client.call(build(kwire.request_type(8), request), 9)
        assert "successful" in tool("--delete", "--group", "h")[-1][-1]
        assert tool("--list") == [
            ["g"]
        ]  # empty, and forgotten at the next look for expired offsets
