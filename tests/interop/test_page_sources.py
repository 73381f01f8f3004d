"""The page in Chromium over logs of Kafka: a large one, an observed quorum, a report as a file, and
a log whose names are markup.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.cli.state_files import load_files
from kwire.cluster.shell_view import shell_view
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.metadata_log.at import At
from tests.gateway.cli.test_report import report
from tests.gateway.page.hostile_log import NAMES, write_hostile_log
from tests.interop.browser import Browser
from tests.interop.conftest import FIGURES
from tests.interop.page_view import (
    TOO_WIDE,
    figures,
    health,
    once,
    shows,
    url,
    wait_for_all,
)
from tests.interop.quorum import make_topics, need_kafka, observing
from tests.shared import needs_shared
from tests.speed import measured, note, rounds
from tests.waiting import until
from tools.admin import Admin
from tools.gateway_process import gateway
from tools.kafka import kafka

#: The most rows of the list that the page holds: those in a window, and some beside them.
_ROWS_MAX: Final = 100
#: Scrolls the list from its begin to its end, and zooms, a step in each frame. The result is the
#: longest time between two frames, ms, and the most rows at a time.
_SCROLL: Final = """
new Promise(done => {
  const list = document.getElementById("list"), steps = 60;
  let step = 0, before = performance.now(), longest = 0, rows = 0;
  const frame = (time) => {
    if (step > 2) longest = Math.max(longest, performance.now() - before);
    before = performance.now();
    rows = Math.max(rows, document.querySelectorAll("#list .row").length);
    list.scrollTop = list.scrollHeight * step / steps;
    if (step === steps / 3) document.getElementById("zoom-in").click();
    if (step === steps / 2) document.getElementById("all").click();
    if (step++ < steps) requestAnimationFrame(frame); else done([longest, rows]);
  };
  requestAnimationFrame(frame);
})
"""


@needs_shared
def test_a_large_log_is_shown_whole_and_scrolls(logs: Any, chromium: Browser) -> None:
    directory = logs("p-large") / "nodes/1/__cluster_metadata-0"
    arguments = ["--source", "log", "--log-dir", str(directory)]
    with gateway(*arguments, "--management-listener", "127.0.0.1:0") as server:
        with measured("the changes of p-large, from the address to the page", usual_s=20):
            chromium.open(url(server, "#view=timeline"))
            wait_for_all(chromium)
        assert chromium.evaluate("changes.count") > 130_000
        once(chromium, "timeline.found.length === changes.count")
        longest_ms = most_rows = 0
        for _ in rounds():
            longest_ms, most_rows = chromium.evaluate(_SCROLL)
            note("the longest frame of scrolling through p-large", longest_ms / 1000, usual_s=0.04)
        FIGURES.append(f"page: a frame of scrolling takes at most {longest_ms:.0f} ms")
        assert 0 < most_rows <= _ROWS_MAX
        chromium.evaluate("document.getElementById('tab-quorum').click()")
        image = load_files([directory], At()).image
        until(lambda: shows(chromium, image), "the figures of the image")
        chromium.evaluate("document.getElementById('tab-replicas').click()")
        once(chromium, "document.querySelectorAll('#heat canvas').length > 0")
    assert chromium.errors == []


def test_an_observed_kafka_is_shown(tmp_path: Path, chromium: Browser) -> None:
    need_kafka()
    with kafka() as cluster:
        arguments = observing(cluster, tmp_path / "data", "--management-listener", "127.0.0.1:0")
        with gateway(*arguments) as server:
            chromium.open(url(server))
            wait_for_all(chromium)
            for number in (1, 2):
                make_topics(cluster, [f"orders-{number}"])
                with measured("a topic, from Kafka's answer to the page", usual_s=0.6):
                    until(
                        lambda: figures(chromium)["topic"],
                        "the figure of topics",
                        str(number).__eq__,
                    )
            shown = figures(chromium)
            assert (shown["partition"], shown["broker"], shown["leader"]) == ("8", "1", "1")
            rows = chromium.evaluate(
                "document.querySelectorAll('#replica-table [data-node]').length"
            )
            assert rows >= 1 and health(chromium) == "live"
            copy = chromium.evaluate("document.getElementById('copy').textContent")
            assert copy.startswith("The copy of the log in this gateway is complete since ")
    chromium.errors.clear()  # the browser notes the requests that failed when the server ended


@needs_shared
def test_a_report_shows_a_log_without_a_server(
    logs: Any, tmp_path: Path, chromium: Browser
) -> None:
    directory = logs("p-quorum") / "nodes/1/__cluster_metadata-0"
    target = tmp_path / "report.html"
    result = report(str(directory), "--html", str(target))
    assert result.exception is None, result.output
    chromium.open("about:blank")
    chromium.loaded.clear()
    chromium.errors.clear()
    chromium.open(target.as_uri())
    once(chromium, "now && changes.count > 0 && changes.last === now.changes.last")
    image = load_files([directory], At()).image
    assert shows(chromium, image)
    assert [one for one in chromium.loaded if one != "data:,"] == [target.as_uri()]
    chromium.evaluate("document.getElementById('tab-timeline').click()")
    once(chromium, "document.querySelectorAll('#list .row').length > 5")
    chromium.evaluate("document.querySelectorAll('#list .row')[3].click()")
    once(chromium, "document.querySelector('#detail table') !== null")
    chromium.evaluate("document.getElementById('tab-state').click()")
    once(chromium, "document.querySelectorAll('#tree button.node').length > 5")
    names = chromium.evaluate(
        "[...document.querySelectorAll('#tree > ul > li > button')].map(one => one.textContent)"
    )
    assert names == [name for name, value in shell_view(image).items() if isinstance(value, dict)]
    assert chromium.errors == []


@pytest.mark.parametrize("kind", ["served", "report"])
def test_markup_in_names_is_shown_as_text(kind: str, tmp_path: Path, chromium: Browser) -> None:
    directory = write_hostile_log(tmp_path)
    target = tmp_path / "report.html"
    if kind == "report":
        assert report(str(directory), "--html", str(target)).exception is None
        _look_for_markup(chromium, target.as_uri())
        return
    arguments = ["--source", "log", "--log-dir", str(directory)]
    with gateway(*arguments, "--management-listener", "127.0.0.1:0") as server:
        _look_for_markup(chromium, url(server))


def _look_for_markup(chromium: Browser, page: str) -> None:
    chromium.open("about:blank")  # the page before asks a server that has ended
    chromium.errors.clear()
    for view in ("timeline", "replicas", "state", "quorum"):
        chromium.open("about:blank")
        chromium.open(f"{page}#view={view}", width=400)
        once(chromium, f"now && changes.count === {5 * len(NAMES) + 1}")
        if view == "timeline":
            once(chromium, "timeline.found.length === changes.count")
            for position in range(5 * len(NAMES) + 1):
                chromium.evaluate(f"select({position})")
                once(chromium, "document.querySelector('#detail table') !== null")
            names = chromium.evaluate("changes.names")
            assert set(NAMES) <= set(names)
        if view == "state":
            once(chromium, "document.querySelectorAll('#tree button.node').length > 3")
            for name in ("topics", "byName", *NAMES, "acls", "byId", "configs"):
                chromium.evaluate(
                    "[...document.querySelectorAll('#tree button.node')].filter(one =>"
                    f" one.textContent === {json.dumps(name)}).forEach(one => one.click())"
                )
        assert chromium.evaluate("document.title") == "kwire"
        assert (
            chromium.evaluate("document.querySelectorAll('main img, main svg, main script').length")
            == 0
        )
        assert chromium.evaluate(TOO_WIDE) <= 0, view
    assert chromium.errors == []


def test_topics_of_a_broker_have_their_size_and_rates(tmp_path: Path, chromium: Browser) -> None:
    data = ["--data-dir", str(tmp_path / "data"), "--management-listener", "127.0.0.1:0"]
    with gateway(*data) as server, Admin([server.bootstrap]) as admin:
        names = ("busy", "idle")
        topics = [CreatableTopic(name=one, num_partitions=2, replication_factor=1) for one in names]
        admin.send(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
        chromium.open(url(server, "#view=topics&sort=size&order=desc"), width=400, dark=True)
        wait_for_all(chromium)
        once(chromium, "$('topics-table').innerText.includes('busy')")
        line = ["kcat", "-b", server.bootstrap, "-P", "-t", "busy"]
        subprocess.run(line, input=b"0123456789\n" * 2000, check=True, timeout=60)
        row = "[...$('topics-table').tBodies[0].rows].find(one => one.innerText.includes('busy'))"
        once(chromium, f"!{row}.cells[7].textContent.startsWith('0')")  # records a second
        assert chromium.evaluate(f"{row}.rowIndex") == 1
        assert chromium.evaluate(f"{row}.cells[6].textContent").endswith(" KiB")
        once(chromium, f"{row}.cells[7].textContent === '0'")  # some seconds later
        assert chromium.evaluate(TOO_WIDE) <= 0
        assert chromium.errors == []
