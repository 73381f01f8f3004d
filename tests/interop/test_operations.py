"""The files of docs/examples/operations under the programs that they are for: promtool checks the
alert rules and runs their cases, a Prometheus scrapes a quorum of one and answers every query of
the dashboard, and systemd checks the unit.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.interop.clients import missing
from tests.operation_files import (
    CASES,
    RULES,
    SCRAPING,
    alerts,
    matchers_in,
    metrics_in,
    queries,
    unit_for,
)
from tools.gateway_process import KWIRE, Gateway, gateway
from tools.process import Process

pytestmark = pytest.mark.interop

#: Program -> the package of Debian that has it.
_PACKAGES: Final = {
    "promtool": "prometheus",
    "prometheus": "prometheus",
    "systemd-analyze": "systemd",
}
#: A port that no program listens on: its scrapes fail.
_CLOSED: Final = "127.0.0.1:1"
#: So many scrapes give every rate two values.
_SCRAPES: Final = 4
#: The highest exposure that ``systemd-analyze security`` may find, in tenths of its 0 to 10.
_EXPOSURE_MAX: Final = 20


def _program(name: str) -> str:
    """The path of a program; skips the test without it."""
    path = shutil.which(name)
    if path is None:
        missing(f"{name} is not on the PATH (Debian package {_PACKAGES[name]})")
    assert path is not None
    return path


def _run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what it prints is in ``stdout``."""
    return subprocess.run(
        [_program(program), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("what", ["rules", "config"])
def test_promtool_accepts_rules_and_configuration(what: str) -> None:
    done = _run("promtool", "check", what, RULES if what == "rules" else SCRAPING)
    assert done.returncode == 0, done.stdout


def test_every_case_of_the_alerts_holds() -> None:
    done = _run("promtool", "test", "rules", CASES)
    assert done.returncode == 0, done.stdout


def test_promtool_parses_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": expression}
        for number, (_, expression) in enumerate(queries())
    ]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = _run("promtool", "check", "rules", path)
    assert done.returncode == 0, done.stdout


def test_systemd_accepts_the_unit_and_finds_it_confined(tmp_path: Path) -> None:
    unit = tmp_path / "kwire.service"
    unit.write_text(unit_for(Path(sys.executable)))
    done = _run("systemd-analyze", "verify", unit)
    assert (done.returncode, done.stdout) == (0, "")
    confined = _run(
        "systemd-analyze", "security", "--offline=true", f"--threshold={_EXPOSURE_MAX}", unit
    )
    assert confined.returncode == 0, confined.stdout


class Prometheus:
    """A running Prometheus, asked over its HTTP API."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, **parameters: str) -> Any:
        """The ``data`` of a response. Raises HTTPError for a query that is not valid."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://{self._address}/api/v1/{path}?{query}"
        with urllib.request.urlopen(url, timeout=30) as response:
            return json.loads(response.read())["data"]

    def query(self, expression: str) -> list[Any]:
        """The series of an instant query."""
        found: list[Any] = self.get("query", query=expression)["result"]
        return found

    def has_scraped(self, instance: str) -> bool:
        """Whether there are enough scrapes of ``instance`` for every rate."""
        found = self.query(f'count_over_time(up{{instance="{instance}"}}[5m])')
        return bool(found) and int(found[0]["value"][1]) >= _SCRAPES


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A quorum of one that a client has read from, so that there are requests to count."""
    data = tmp_path_factory.mktemp("quorum") / "data"
    with gateway(
        "--source", "own", "--data-dir", str(data), "--management-listener", "127.0.0.1:0"
    ) as running:
        tail = [*KWIRE, "tail", "-b", running.bootstrap, "--until-end"]
        subprocess.run(tail, capture_output=True, timeout=60, check=True)
        yield running


@pytest.fixture(scope="module")
def prometheus(server: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus with the documented configuration, but for the targets and shorter intervals."""
    program, scratch = _program("prometheus"), tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load(SCRAPING.read_text())
    config["global"] = dict.fromkeys(config["global"], "500ms")
    config["rule_files"] = [str(SCRAPING.parent / name) for name in config["rule_files"]]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [_address(server), _CLOSED]
    path = scratch / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    process = Process(
        "prometheus",
        [
            program,
            f"--config.file={path}",
            f"--storage.tsdb.path={scratch / 'data'}",
            "--web.listen-address=127.0.0.1:0",
        ],
        scratch / "output",
    )
    try:
        process.wait_until(lambda: _listening(process) is not None, timeout_s=30)
        running = Prometheus(str(_listening(process)))
        process.wait_until(lambda: running.has_scraped(_address(server)), timeout_s=60)
        yield running
    finally:
        process.stop()


def _address(server: Gateway) -> str:
    return str(server.ready["management"])


def _listening(process: Process) -> str | None:
    """The address in Prometheus's log once it answers requests; the system picks its port."""
    said = process.said(limit=100_000)
    found = re.search(r'msg="Listening on" address=(127\.0\.0\.1:\d+)', said)
    return found[1] if found and "Server is ready to receive web requests" in said else None


def test_server_is_scraped_without_an_error(server: Gateway, prometheus: Prometheus) -> None:
    targets = prometheus.get("targets")["activeTargets"]
    health = {one["labels"]["instance"]: (one["health"], one["lastError"]) for one in targets}
    assert health[_address(server)] == ("up", "")
    assert health[_CLOSED][0] == "down"


def test_rules_are_evaluated_and_the_node_that_is_down_has_a_pending_alert(
    prometheus: Prometheus,
) -> None:
    rules = {
        rule["name"]: rule
        for group in prometheus.get("rules", type="alert")["groups"]
        for rule in group["rules"]
    }
    assert rules.keys() == alerts().keys()
    assert {rule["health"] for rule in rules.values()} == {"ok"}
    assert {name for name, rule in rules.items() if rule["state"] == "firing"} == set()
    (down,) = rules["KwireNodeDown"]["alerts"]
    assert (down["labels"]["instance"], down["state"]) == (_CLOSED, "pending")
    assert down["annotations"]["summary"] == f"{_CLOSED} does not answer scrapes"


def test_every_query_of_the_dashboard_is_answered(server: Gateway, prometheus: Prometheus) -> None:
    with urllib.request.urlopen(f"http://{_address(server)}/metrics", timeout=30) as response:
        text = response.read().decode()
    there: dict[str, list[Mapping[str, str]]] = {"up": [{}]}
    for family in parse_text(text):
        for sample in family.samples:
            there.setdefault(sample.name, []).append(sample.labels)
    empty = set()
    for title, expression in queries():
        found = prometheus.query(expression)
        assert bool(found) == _has_data(expression, there), (title, expression)
        if not found:
            empty.add(title)
    assert empty <= WITHOUT_DATA


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


def _has_data(expression: str, there: Mapping[str, list[Mapping[str, str]]]) -> bool:
    """Whether the server has every series that the expression reads."""
    if not metrics_in(expression) <= there.keys():
        return False
    return all(
        any(labels.get(one.label) == one.value for labels in there[one.metric])
        for one in matchers_in(expression)
        if one.operator == "="
    )
