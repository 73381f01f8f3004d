"""The alert rules, the dashboard and the systemd unit of docs/examples/operations use metrics,
labels and limits that the server has.

tests/interop/test_operations.py gives the same files to promtool, Prometheus and systemd.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from itertools import combinations
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.config.config import Config
from gateway.server.management.metrics import Metrics
from gateway.server.management.metrics_table import TABLE
from tests.documented import ROOT
from tests.gateway.server.management.measured_server import everything
from tests.operation_files import (
    FILES,
    UNIT_PROGRAM,
    alerts,
    cases,
    dashboard,
    grouping_labels_in,
    labels_in_text,
    matchers_in,
    metrics_in,
    queries,
    unit_keys,
)
from tools.check.links import anchors

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the server has the metrics of its process on Linux only"
)

PAGE: Final = ROOT / "docs" / "operations.md"
#: Labels that Prometheus adds to every series.
TARGET: Final = frozenset({"job", "instance"})
ALERTS: Final = alerts()
EXPRESSIONS: Final = [
    *((name, rule["expr"]) for name, rule in ALERTS.items()),
    *queries(),
    *((one["name"], one["expr"]) for one in dashboard()["annotations"]["list"]),
]
_COLUMNS: Final = 24


def exposed() -> dict[str, dict[str, set[str]]]:
    """Name -> label -> values, of each series of a server in which every metric has one.

    Names and labels are complete, for they come from the table of metrics. Values are, for a label
    that lists the states of something.
    """
    found: dict[str, dict[str, set[str]]] = {"up": {}}
    for family in parse_text(Metrics(everything()).render()[1].decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    for metric in TABLE:
        for label in metric.labels:
            found.setdefault(metric.name, {}).setdefault(label, set())
    return found


EXPOSED: Final = exposed()


def _labels_of(names: Iterable[str]) -> set[str]:
    return {label for name in names for label in EXPOSED[name]} | TARGET


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=[one for one, _ in EXPRESSIONS])
def test_expression_names_metrics_and_labels_that_the_server_exposes(
    title: str, expression: str
) -> None:
    names = metrics_in(expression)
    assert names and names <= EXPOSED.keys()
    for metric, label, operator, value in matchers_in(expression):
        labels = EXPOSED[metric]
        assert label in labels.keys() | TARGET, (metric, label)
        if label == "state" and operator == "=":
            assert value in labels["state"], (metric, value)
    assert grouping_labels_in(expression) <= _labels_of(names)


def test_exposed_names_are_all_of_the_table() -> None:
    assert {metric.name for metric in TABLE} <= EXPOSED.keys()
    assert EXPOSED["kwire_request_seconds_bucket"].keys() == {"api", "le"}


@pytest.mark.parametrize("name", ALERTS)
def test_alert_says_how_severe_it_is_and_where_to_read_on(name: str) -> None:
    rule = ALERTS[name]
    notes = rule["annotations"]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert notes.keys() == {"summary", "description", "runbook"}
    assert notes["description"].endswith(".") and not notes["summary"].endswith(".")
    path, _, anchor = notes["runbook"].partition("#")
    assert ROOT / path == PAGE and anchor == name.lower()
    assert anchor in anchors(PAGE)
    shown = labels_in_text(notes["summary"] + notes["description"])
    assert shown <= _labels_of(metrics_in(rule["expr"]))


def test_page_has_a_section_for_each_alert_and_no_other() -> None:
    sections = re.findall(r"^#+ (Kwire\w+)$", PAGE.read_text(), re.MULTILINE)
    assert sections == list(ALERTS)


def test_page_links_to_each_file() -> None:
    named = set(re.findall(r"\(examples/operations/([\w.-]+)\)", PAGE.read_text()))
    assert named == {path.name for path in FILES.iterdir()}


def _firing(case: dict[str, Any]) -> list[list[str]]:
    """The alerts that fire at each time of a case."""
    return [
        [
            one
            for sample in moment.get("exp_samples", ())
            for one in re.findall(r'alertname="(\w+)"', sample["labels"])
        ]
        for moment in case["promql_expr_test"]
    ]


def test_each_alert_has_a_case_in_which_it_is_quiet_and_then_fires_alone() -> None:
    _, *failures = cases()
    assert [case["name"] for case in failures] == list(ALERTS)
    for case in failures:
        assert _firing(case) == [[], [case["name"]]]


def test_case_without_alerts_has_every_metric_of_the_rules() -> None:
    healthy, *_ = cases()
    assert _firing(healthy) == [[]]
    there = {name for one in healthy["input_series"] for name in metrics_in(one["series"])}
    assert {name for rule in ALERTS.values() for name in metrics_in(rule["expr"])} <= there


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_series_of_a_case_have_labels_that_the_server_exposes(case: dict[str, Any]) -> None:
    for one in case["input_series"]:
        (name,) = metrics_in(one["series"])
        given = {matcher.label for matcher in matchers_in(one["series"])}
        assert given == EXPOSED[name].keys() | TARGET, one["series"]


def test_panels_have_unique_ids_and_places() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        for place in (panel["gridPos"] for panel in panels)
    ]
    assert all(0 <= x < _COLUMNS for one in cells for x, _ in one)
    assert not [1 for one, other in combinations(cells, 2) if one & other]


def test_dashboard_has_a_row_for_each_part_of_a_node() -> None:
    rows = [panel["title"] for panel in dashboard()["panels"] if panel["type"] == "row"]
    assert rows == [
        "Now",
        "Cluster",
        "Quorum",
        "Observer (source=observer)",
        "Controller (source=controller)",
        "Log and requests",
        "Connections",
        "Groups",
        "Views",
        "Workers",
        "Process",
        "Topics of a broker",
    ]


def test_panels_take_data_source_job_and_instance_from_variables() -> None:
    board = dashboard()
    variables = [one["name"] for one in board["templating"]["list"]]
    assert variables == ["datasource", "job", "instance"]
    assert board["schemaVersion"] >= 39
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            used = set(re.findall(r"\$(\w+)", target["expr"]))
            assert "job" in used and used <= {"job", "instance", "__rate_interval"}


def test_legends_show_labels_of_their_series() -> None:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            kept = grouping_labels_in(expression) or _labels_of(metrics_in(expression))
            assert labels_in_text(target["legendFormat"]) <= kept, expression


def test_unit_suits_the_defaults_of_the_server() -> None:
    keys, config = unit_keys(), Config()
    assert keys["Type"] == ["notify"]
    assert keys["ExecStart"][0].startswith(f"{UNIT_PROGRAM} serve --config ")
    assert int(keys["TimeoutStopSec"][0]) > config.drain_timeout_ms / 1000
    assert int(keys["LimitNOFILE"][0]) > config.max_connections
    assert keys["RestartPreventExitStatus"] == ["2"]  # an unusable configuration
    assert keys["StateDirectory"] == ["kwire"]
    # kwire/ below these is the directory that systemd makes.
    assert keys["Environment"] == ["XDG_DATA_HOME=/var/lib XDG_STATE_HOME=/var/lib"]
