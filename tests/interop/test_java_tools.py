"""Kafka's tools run in a shared virtual machine, with every Kafka release that the tests use."""

from __future__ import annotations

import pytest

from tests.interop.clients import need_java
from tools import java, java_tools


@pytest.mark.parametrize("version", [java.KAFKA_VERSION, "4.4.0"])
def test_tool_that_fails_leaves_the_machine_to_the_next_tool(version: str) -> None:
    need_java()
    storage = "kafka.tools.StorageTool"
    assert java_tools.run(storage, ["no-such-command"], version=version).returncode == 1
    assert java_tools.run(storage, ["random-uuid"], version=version).stdout.strip()
