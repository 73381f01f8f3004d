"""Our server as a child process: its address, its end, and its words when it does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.gateway_process import gateway
from tools.process import ProcessError, accepts


def test_gateway_listens_until_the_block_ends() -> None:
    with gateway() as server:
        host, _, port = server.bootstrap.rpartition(":")
        assert accepts(host, int(port))
        assert server.started_in_s > 0
    assert not accepts(host, int(port))


def test_unusable_configuration_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "nothing-here"
    with (
        pytest.raises(ProcessError, match=r"kwire serve ended with 2:\n(.|\n)*log\.dirs"),
        gateway("--log-dir", str(missing)),
    ):
        pytest.fail("it started on a directory that is not there")


def test_server_that_dies_in_the_block_is_reported() -> None:
    with pytest.raises(ProcessError, match="not by itself with 0"), gateway() as server:
        server.process.kill()
