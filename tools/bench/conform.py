"""Measures ``kwire conform``: the whole card of a Kafka broker, and the check of a long log.

Both run as the command that users start, with the time of its start.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools import java
from tools.bench.largelog import NoLog, unpack
from tools.gateway_process import KWIRE
from tools.kafka import kafka
from tools.process import ProcessError

_CARD_S_MAX, _LOG_S_MAX = 60, 10
_LOG_ROUNDS = 3
_TIMEOUT_S = 300


def run() -> list[dict[str, Any]]:
    """Return the rows; for a part that cannot run, one with the reason."""
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch:
        return [*_broker(Path(scratch)), *_log(Path(scratch))]


def _broker(scratch: Path) -> Iterator[dict[str, Any]]:
    what = "card of a broker"
    try:
        java.java()
        java.class_path()
    except java.JavaError as error:
        yield {"what": what, "ok": False, "notes": f"not measured: {error}"}
        return
    with kafka() as cluster:
        took_s, report = _conform(scratch, cluster.bootstrap)
    tried = sum(report["counts"].get(outcome, 0) for outcome in ("pass", "deviation", "advice"))
    yield {
        "what": f"{what}, {tried} rules, Kafka {java.KAFKA_VERSION}",
        "unit": "s",
        "kwire": took_s,
        "ok": took_s < _CARD_S_MAX,
        "notes": f"below {_CARD_S_MAX} s",
    }


def _log(scratch: Path) -> Iterator[dict[str, Any]]:
    try:
        node = unpack(scratch)
    except NoLog as error:
        yield {"what": "check of a log", "ok": False, "notes": f"not measured: {error}"}
        return
    took_s = statistics.median(_conform(scratch, "--log", str(node))[0] for _ in range(_LOG_ROUNDS))
    yield {
        "what": "check of a log of 136,116 records",
        "unit": "s",
        "kwire": took_s,
        "ok": took_s < _LOG_S_MAX,
        "notes": f"below {_LOG_S_MAX} s",
    }


def _conform(scratch: Path, *arguments: str) -> tuple[float, dict[str, Any]]:
    """Run the command, and return the seconds that it took and its report. Raises ProcessError if
    a rule is not kept.
    """
    file = scratch / "report.json"
    began = time.monotonic()
    done = subprocess.run(
        [*KWIRE, "conform", *arguments, "--json", str(file)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    took_s = time.monotonic() - began
    if done.returncode:
        raise ProcessError(f"kwire conform ended with {done.returncode}:\n{done.stdout}")
    report: dict[str, Any] = json.loads(file.read_text())
    return took_s, report
