"""Reads the files of docs/examples/operations: alert rules, their cases, and the dashboard.

It parses no PromQL: names and labels in an expression are found by their form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tests.documented import ROOT

FILES: Final = ROOT / "docs" / "examples" / "operations"
RULES: Final = FILES / "kwire.rules.yml"
CASES: Final = FILES / "kwire.rules.test.yml"
SCRAPING: Final = FILES / "prometheus.yml"
DASHBOARD: Final = FILES / "kwire-dashboard.json"
UNIT: Final = FILES / "kwire.service"
#: The program in the unit; it is not there on a machine that runs the tests.
UNIT_PROGRAM: Final = "/opt/kwire/bin/kwire"

_TEXT: Final = re.compile(r'"[^"]*"')
_METRIC: Final = re.compile(r"\b((?:kwire|kafka|process)_\w+|up)\b")
_SELECTOR: Final = re.compile(r"\b(\w+)\{([^}]*)\}")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING: Final = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
#: Labels in the texts of an alert, and in the legend of a panel.
_LABEL_IN_TEXT: Final = re.compile(r"\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}")


class Matcher(NamedTuple):
    """``label="value"`` in a selector of ``metric``."""

    metric: str
    label: str
    operator: str
    value: str


def metrics_in(expression: str) -> set[str]:
    """The names of series in a PromQL expression, ``_bucket`` and the like included."""
    return set(_METRIC.findall(_TEXT.sub('""', expression)))


def matchers_in(expression: str) -> Iterator[Matcher]:
    """The matchers of each selector in a PromQL expression."""
    for metric, inside in _SELECTOR.findall(expression):
        for label, operator, value in _MATCHER.findall(inside):
            yield Matcher(metric, label, operator, value)


def grouping_labels_in(expression: str) -> set[str]:
    """The labels by which a PromQL expression adds up or joins."""
    return set(re.findall(r"\w+", " ".join(_GROUPING.findall(expression))))


def labels_in_text(text: str) -> set[str]:
    """The labels that a template of an alert or of a legend shows."""
    return set(_LABEL_IN_TEXT.findall(text)) - {"value"}


def alerts() -> dict[str, dict[str, Any]]:
    """Name -> rule, in the order of the file."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def cases() -> list[dict[str, Any]]:
    """The cases of the alert rules."""
    found: list[dict[str, Any]] = yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]
    return found


def dashboard() -> dict[str, Any]:
    """The dashboard."""
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def queries() -> list[tuple[str, str]]:
    """(title, expression) of each query of the dashboard, for all jobs and instances and a rate
    over ten seconds.
    """
    return [
        (panel["title"], filled(target["expr"]))
        for panel in dashboard()["panels"]
        for target in panel.get("targets", ())
    ]


def titles_of(row: str) -> frozenset[str]:
    """The titles of the dashboard's panels in a row."""
    titles, current = set(), ""
    for panel in dashboard()["panels"]:
        if panel["type"] == "row":
            current = panel["title"]
        elif current == row:
            titles.add(panel["title"])
    return frozenset(titles)


def filled(expression: str) -> str:
    """The expression that Grafana would send with all jobs and instances chosen."""
    values = {"$job": ".*", "$instance": ".*", "$__rate_interval": "10s"}
    for name, value in values.items():
        expression = expression.replace(name, value)
    return expression


def unit_keys() -> dict[str, list[str]]:
    """Key -> its values in the systemd unit."""
    keys: dict[str, list[str]] = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            keys.setdefault(name, []).append(value)
    return keys


def unit_for(program: Path) -> str:
    """The text of the unit with another program."""
    return UNIT.read_text(encoding="utf-8").replace(UNIT_PROGRAM, str(program))
