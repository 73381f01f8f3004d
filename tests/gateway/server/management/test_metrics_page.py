"""The table of metrics: docs/metrics.md documents it, names follow rules, and a scrape is short."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.handlers.table import handlers
from gateway.server.management.metrics import Metrics
from gateway.server.management.metrics_table import TABLE
from kwire.protocol import ErrorCode
from tests.gateway.server.management.measured_server import PROCESS, everything
from tests.gateway.steps import calls_of
from tests.speed import measured, rounds

PAGE = Path(__file__).parents[4] / "docs" / "metrics.md"


def documented() -> dict[str, tuple[str, str]]:
    """Name -> (kind, labels) of every row of the page's tables."""
    rows = re.findall(
        r"^\| `((?:kafka|kwire)_\w+)` \| (gauge|counter|histogram) \| ([^|]*) \|",
        PAGE.read_text(),
        re.MULTILINE,
    )
    return {name: (kind, labels.replace("`", "").strip()) for name, kind, labels in rows}


def registered() -> dict[str, tuple[str, str]]:
    families = parse_text(Metrics(everything()).render()[1].decode())
    return {
        _stored(family): (family.type, _labels(family.samples))
        for family in families
        if not family.name.startswith(PROCESS)
    }


def _stored(family: Any) -> str:
    return family.name + ("_total" if family.type == "counter" else "")


def _labels(samples: Iterable[Any]) -> str:
    return ", ".join(sorted({key for sample in samples for key in sample.labels if key != "le"}))


def test_page_documents_every_metric_and_no_other() -> None:
    assert documented() == registered()


def test_names_have_a_known_prefix_and_the_suffix_of_their_kind() -> None:
    for metric in TABLE:
        assert re.fullmatch(
            r"(kafka_server|kafka_controller|kafka_log|kwire)_[a-z0-9_]+", metric.name
        )
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.help.endswith((".", "ms."))
    assert len({metric.name for metric in TABLE}) == len(TABLE)


def busy_server() -> Metrics:
    """The metrics of a server where every API has had requests and ten errors."""
    told = everything()
    for api_key in handlers():
        told.server_context.counts.apis[api_key].errors.update(
            dict.fromkeys(list(ErrorCode)[:10], 1)
        )
    metrics = Metrics(told)
    metrics.render()
    return metrics


def test_scrape_makes_a_bounded_number_of_calls_for_each_line() -> None:
    # The event loop serves no client meanwhile.
    (_, page), calls = calls_of(busy_server().render)
    assert calls < 100 * page.count(b"\n")


@pytest.mark.speed
def test_speed_of_a_scrape() -> None:
    metrics = busy_server()
    for _ in rounds():
        with measured("a scrape", 0.02, time.thread_time):
            metrics.render()
