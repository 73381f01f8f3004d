"""Serves a log for Spark, and runs a script with spark-submit."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kwire.jars.spark import spark_jars
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.spark import kafka_options
from kwire.spark.options import Way
from tests.interop.test_logs import copied
from tests.interop.truth import Log
from tools import spark_home
from tools.gateway_process import gateway
from tools.process import Process

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "docs" / "examples"
BY: dict[Way, str] = {
    "subscribe": CLUSTER_METADATA_TOPIC,
    "subscribePattern": "__cluster_meta.*",
    "assign": CLUSTER_METADATA_TOPIC,
}


@dataclass
class Served:
    """A log, where it is served, and its directory, which may be written to."""

    name: str
    log: Log
    bootstrap: str
    directory: Path
    truth: Path

    def options(self, by: Way, **more: Any) -> dict[str, str]:
        return kafka_options(self.bootstrap, by=by, topic=BY[by], **more)


@contextmanager
def serving(logs: Any, which: tuple[str, str], into: Path) -> Iterator[Served]:
    name, node = which
    log, directory = copied(logs(name), node, into)
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        yield Served(
            name, log, server.bootstrap, directory, logs(name) / node.replace("nodes", "truth")
        )


@contextmanager
def submitted(script: str, arguments: Sequence[str], into: Path) -> Iterator[Process]:
    """An example as a user starts it, by spark-submit in a process of its own."""
    settings = {
        **spark_home.FEW_ROWS,
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    command = [
        _spark_submit(),
        *("--jars", str(spark_jars()), "--master", "local[1]"),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        "--driver-java-options",
        spark_home.driver_options(),
        str(EXAMPLES / script),
        *arguments,
    ]
    environment = {
        **spark_home.environment(),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(
            os.pathsep
        ),
    }
    job = Process("spark-submit", command, into / "printed", environment)
    try:
        yield job
    finally:
        job.stop()


def _spark_submit() -> str:
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    found = shutil.which("spark-submit", path=beside)
    assert found is not None, "PySpark is installed, but not its spark-submit"
    return found
