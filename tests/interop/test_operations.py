"""The files of docs/examples/operations under the programs that they are for: promtool checks the
alert rules and runs their cases, a Prometheus scrapes a quorum of one and answers every query of
the dashboard, and systemd checks the unit.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.interop.prometheus import (
    OF_BROKERS,
    WITHOUT_DATA,
    WITHOUT_PARTITIONS,
    Prometheus,
    program,
    scraping,
)
from tests.operation_files import (
    CASES,
    RULES,
    SCRAPING,
    alerts,
    queries,
    unit_for,
)
from tests.waiting import PATIENCE_S
from tools.gateway_process import KWIRE, Gateway, gateway

pytestmark = pytest.mark.interop

#: A port that no program listens on: its scrapes fail.
_CLOSED: Final = "127.0.0.1:1"
#: The highest exposure that ``systemd-analyze security`` may find, in tenths of its 0 to 10.
_EXPOSURE_MAX: Final = 20


def _run(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what it prints is in ``stdout``."""
    return subprocess.run(
        [program(name), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A quorum of one that a client has read from, so that there are requests to count."""
    data = tmp_path_factory.mktemp("quorum") / "data"
    with gateway(
        "--source", "own", "--data-dir", str(data), "--management-listener", "127.0.0.1:0"
    ) as running:
        tail = [*KWIRE, "tail", "-b", running.bootstrap, "--until-end"]
        subprocess.run(tail, capture_output=True, timeout=PATIENCE_S, check=True)
        yield running


@pytest.fixture(scope="module")
def prometheus(server: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus with the documented configuration, but for the targets and shorter intervals."""
    with scraping(
        tmp_path_factory.mktemp("prometheus"), _address(server), down=[_CLOSED]
    ) as running:
        yield running


def _address(server: Gateway) -> str:
    return str(server.ready["management"])


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
    empty = WITHOUT_DATA | WITHOUT_PARTITIONS | OF_BROKERS
    assert prometheus.unanswered(_address(server)) <= empty
