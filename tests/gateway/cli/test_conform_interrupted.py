"""Ctrl-C ends ``kwire conform`` early, and what it made is removed."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from kwire.messages.metadata_request import MetadataRequest
from tests.waiting import until
from tools.gateway_process import KWIRE, gateway
from tools.wire_client import WireClient

_PREFIX = "kwire-conform-"


def _made(bootstrap: str) -> list[str]:
    with WireClient(bootstrap) as client:
        topics = client.call(MetadataRequest(topics=None), 12).topics
    return [topic.name for topic in topics if topic.name.startswith(_PREFIX)]


def _take_sigint() -> None:
    """Take SIGINT as a program in the foreground does: jobs in the background inherit that it is
    ignored.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_the_run_and_removes_its_topics(tmp_path: Path) -> None:
    with gateway("--source", "own", "--data-dir", str(tmp_path / "data")) as server:
        rules = ["--rule", "topics", "--rule", "configs", "--workers", "1"]
        run = subprocess.Popen(
            [*KWIRE, "conform", server.bootstrap, *rules, "-o", "json"],
            stdout=subprocess.PIPE,
            preexec_fn=_take_sigint,
        )
        until(lambda: _made(server.bootstrap), "a topic that the run makes")
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=60)
        report = json.loads(output)
        assert run.returncode == 130
        assert report["interrupted"]
        assert report["remarks"] == []
        assert 0 < len(report["results"]) < 40
        assert _made(server.bootstrap) == []
