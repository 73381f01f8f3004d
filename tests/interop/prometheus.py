"""A Prometheus that scrapes servers with the documented configuration, and answers the queries of
the dashboard.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.interop.clients import missing
from tests.operation_files import SCRAPING, matchers_in, metrics_in, queries, titles_of
from tests.waiting import PATIENCE_S
from tools.process import Process

#: Program -> the package of Debian that has it.
_PACKAGES: Final = {
    "promtool": "prometheus",
    "prometheus": "prometheus",
    "systemd-analyze": "systemd",
}
_COMPARISON: Final = re.compile(r" [<>]=? \d+$")
#: So many scrapes give every rate two values.
_SCRAPES: Final = 4
#: Panels with a query that has no data at a quorum of one without workers, snapshots and failures.
WITHOUT_DATA: Final = frozenset(
    {
        "Age of the newest snapshot",
        "Errors of requests to the quorum",
        "Errors in responses",
        "Fetch: position out of range",
        "Connections closed by the server",
        "Groups",
        "Refused requests of groups",
        "Workers ready",
        "Restarts of workers",
        "Connections of workers",
        "High watermark of workers",
        "Processor of workers",
        "Memory of workers",
    }
)

#: The same at a server that is no broker, or a broker without topics that hold data.
OF_BROKERS: Final = titles_of("Topics of a broker")
#: The same at a cluster without a broker or a partition.
WITHOUT_PARTITIONS: Final = frozenset(
    {
        "Leaders by broker",
        "Partitions below min ISR",
        "Partitions in trouble by leader",
        "Replicas by broker",
        "Under-replicated partitions",
    }
)


def program(name: str) -> str:
    """The path of a program; skips the test without it."""
    path = shutil.which(name)
    if path is None:
        missing(f"{name} is not on the PATH (Debian package {_PACKAGES[name]})")
    assert path is not None
    return path


class Prometheus:
    """A running Prometheus, asked over its HTTP API."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, **parameters: str) -> Any:
        """The ``data`` of a response. Raises HTTPError for a query that is not valid."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://{self._address}/api/v1/{path}?{query}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
            return json.loads(response.read())["data"]

    def query(self, expression: str) -> list[Any]:
        """The series of an instant query."""
        found: list[Any] = self.get("query", query=expression)["result"]
        return found

    def unanswered(self, *instances: str) -> set[str]:
        """The titles of the dashboard's panels with a query that has no data. Each query has data
        if one of ``instances`` has the series that it reads.
        """
        text = ""
        for instance in instances:
            with urllib.request.urlopen(
                f"http://{instance}/metrics", timeout=PATIENCE_S
            ) as response:
                text += response.read().decode()
        there: dict[str, list[Mapping[str, str]]] = {"up": [{}]}
        for family in parse_text(text):
            for sample in family.samples:
                there.setdefault(sample.name, []).append(sample.labels)
        empty = set()
        for title, shown in queries():
            expression = _COMPARISON.sub("", shown)  # shows nothing while all is well
            found = self.query(expression)
            assert bool(found) == _has_data(expression, there), (title, expression)
            if not found:
                empty.add(title)
        return empty

    def has_scraped(self, instance: str) -> bool:
        """Whether there are enough scrapes of ``instance`` for every rate."""
        found = self.query(f'count_over_time(up{{instance="{instance}"}}[5m])')
        return bool(found) and int(found[0]["value"][1]) >= _SCRAPES


@contextlib.contextmanager
def scraping(scratch: Path, *instances: str, down: Sequence[str] = ()) -> Iterator[Prometheus]:
    """Run a Prometheus that has scraped ``instances`` often enough for every rate. ``down``:
    further targets, which do not answer.
    """
    config = yaml.safe_load(SCRAPING.read_text())
    config["global"] = dict.fromkeys(config["global"], "500ms")
    config["rule_files"] = [str(SCRAPING.parent / name) for name in config["rule_files"]]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [*instances, *down]
    path = scratch / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    process = Process(
        "prometheus",
        [
            program("prometheus"),
            f"--config.file={path}",
            f"--storage.tsdb.path={scratch / 'data'}",
            "--web.listen-address=127.0.0.1:0",
        ],
        scratch / "output",
    )
    try:
        process.wait_until(lambda: _listening(process) is not None, timeout_s=30)
        running = Prometheus(str(_listening(process)))
        process.wait_until(lambda: all(map(running.has_scraped, instances)), timeout_s=PATIENCE_S)
        yield running
    finally:
        process.stop()


def _listening(process: Process) -> str | None:
    """The address in Prometheus's log once it answers requests; the system picks its port."""
    said = process.output_end(limit=100_000)
    found = re.search(r'msg="Listening on" address=(127\.0\.0\.1:\d+)', said)
    return found[1] if found and "Server is ready to receive web requests" in said else None


def _has_data(expression: str, there: Mapping[str, list[Mapping[str, str]]]) -> bool:
    """Whether the server has every series that the expression reads."""
    if not metrics_in(expression) <= there.keys():
        return False
    return all(
        any(
            (labels.get(one.label, "") == one.value) is (one.operator == "=")
            for labels in there[one.metric]
        )
        for one in matchers_in(expression)
        if one.operator in ("=", "!=")
    )
