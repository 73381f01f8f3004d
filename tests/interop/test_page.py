"""The page in Chromium over an own quorum whose brokers come and go: figures, changes within a
second, links, keyboard, narrow windows, and a server that stops.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gateway.base.address import parse_address
from gateway.cli.server_options import server_of
from gateway.cli.state_server import load_server
from kwire.cluster import Image
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.metadata_log.at import At
from tests.gateway.page.test_wire import capture
from tests.interop.browser import Browser
from tests.interop.conftest import FIGURES
from tests.interop.page_view import (
    TOO_WIDE,
    expected_figures,
    figures,
    health,
    once,
    shows,
    url,
    wait_for_all,
)
from tests.speed import measured, note
from tests.waiting import until
from tools.admin import Admin
from tools.gateway_process import Gateway, gateway
from tools.simulated_brokers import FIRST_ID, SimulatedBrokers, simulated_brokers

_VIEWS = ("quorum", "topics", "brokers", "timeline", "replicas", "state", "wire")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    data = tmp_path_factory.mktemp("page") / "data"
    arguments = ["--data-dir", str(data), "--management-listener", "127.0.0.1:0"]
    with gateway(
        *arguments, "--process-roles", "controller", "--broker-session-timeout-ms", "60000"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def brokers(server: Gateway) -> Iterator[SimulatedBrokers]:
    controller = server.ready["listeners"]["CONTROLLER"]
    with simulated_brokers(lambda: controller, server.ready["cluster_id"], 3) as running:
        create(server, "orders", partitions=12, replicas=3)
        yield running


def create(server: Gateway, name: str, *, partitions: int = 1, replicas: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    with Admin([server.bootstrap]) as admin:
        admin.send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))


def image(server: Gateway) -> Image:
    return load_server(server_of((parse_address(server.bootstrap),), None), At()).image


def test_figures_are_those_of_the_state(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser
) -> None:
    chromium.open(url(server))
    wait_for_all(chromium)
    until(lambda: shows(chromium, image(server)), "the figures of the image")
    expected = image(server)
    assert expected_figures(expected)["partition"] == "12"
    assert figures(chromium)["leader"] == "1" and health(chromium) == "live"
    for fence in (True, False):
        brokers.heartbeat(FIRST_ID, fence=fence)
        expected = image(server)
        until(partial(shows, chromium, expected), "the figures of the image")
        assert figures(chromium)["fenced"] == ("1" if fence else "0")
        assert out_of_isr(chromium) == missing(expected)
    assert chromium.errors == []


def out_of_isr(chromium: Browser) -> dict[str, int]:
    """The numbers of partitions whose ISR lacks a broker, as the page has them."""
    chromium.evaluate("document.getElementById('tab-replicas').click(); drawReplicas()")
    rows = chromium.evaluate(
        "[...document.querySelectorAll('#flapping [data-node]')].map(row =>"
        " [row.dataset.node, Number(row.cells[3].textContent)])"
    )
    chromium.evaluate("document.getElementById('tab-quorum').click()")
    return {node: count for node, count in rows if count}


def missing(image: Image) -> dict[str, int]:
    """The same of a state."""
    counts: Counter[str] = Counter()
    for some in image.partitions.values():
        for one in some.values():
            counts.update(str(node) for node in one.replicas if node not in one.isr)
    return dict(counts)


def test_change_is_shown_on_an_open_page(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser
) -> None:
    chromium.open(url(server, "#view=timeline"))
    wait_for_all(chromium)
    for number in range(3):
        name = f"new-{number}"
        create(server, name)
        with measured("a change, from the answer to the page", usual_s=0.4):
            once(chromium, f"changes.names.includes('{name}')")


#: The texts of the rows of a table.
_CELLS = """
[...document.querySelectorAll('#{view}-table tbody tr')].map(row =>
  [...row.cells].map(cell => cell.textContent))
"""


def cells(chromium: Browser, view: str) -> list[list[str]]:
    found: list[list[str]] = chromium.evaluate(_CELLS.replace("{view}", view))
    return found


def test_newest_change_is_the_first_and_says_what_changed(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser
) -> None:
    def seen(text: str) -> str:
        return f"[...document.querySelectorAll('#list .row')].find(row => {text})?.textContent"

    chromium.open(url(server, "#view=timeline"))
    wait_for_all(chromium)
    create(server, "last", partitions=1)
    row = once(chromium, seen("row.textContent.includes('last-0')"))
    assert "leader " in row and "replicas " in row
    once(chromium, "timeline.found[0] === changes.count - 1")
    for fence, text in ((True, "fenced false \u2192 true"), (False, "fenced true \u2192 false")):
        brokers.heartbeat(FIRST_ID, fence=fence)
        once(chromium, seen(f"row.textContent.includes('{text}')"))


def test_tables_lead_from_topics_to_partitions_and_brokers(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser
) -> None:
    create(server, "alone", partitions=2)
    chromium.open(url(server))
    wait_for_all(chromium)
    chromium.evaluate("document.querySelector('[data-figure=topic]').click()")
    names = sorted(image(server).topic_ids)
    until(lambda: [row[0] for row in cells(chromium, "topics")] == names)
    chromium.evaluate("document.querySelectorAll('#topics-table th button')[1].click()")
    until(lambda: cells(chromium, "topics")[0][:3] == ["orders", "12", "3"])
    chromium.evaluate("document.querySelector('#topics-table tbody a').click()")
    until(lambda: [row[0] for row in cells(chromium, "topics")] == [
        f"orders-{number}" for number in range(12)
    ])  # fmt: skip
    chromium.evaluate("document.querySelector('#topics-table tbody td:nth-child(2) a').click()")
    once(chromium, "$('topics-title').textContent.startsWith('Partitions on broker ')")
    chromium.evaluate("document.getElementById('tab-brokers').click()")
    ids = [str(id) for id in sorted(image(server).brokers)]
    until(lambda: [row[0] for row in cells(chromium, "brokers")] == ids)
    assert sum(int(row[3]) for row in cells(chromium, "brokers")) > 36
    assert chromium.errors == []


def test_offline_partitions_are_listed_and_red(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser
) -> None:
    create(server, "fragile", partitions=6)
    for id in range(FIRST_ID, FIRST_ID + 3):
        brokers.heartbeat(id, fence=True)
    try:
        chromium.open(url(server))
        wait_for_all(chromium)
        once(chromium, "$('figures').firstChild.matches('.problem[data-figure=leaderless]')")
        chromium.evaluate("document.querySelector('[data-figure=leaderless]').click()")
        until(lambda: any(row[0] == "fragile-0" for row in cells(chromium, "topics")))
        assert all(row[5].startswith("offline, ") for row in cells(chromium, "topics"))
        assert chromium.evaluate("changes.replicas.losses.length") >= 6
    finally:
        for id in range(FIRST_ID, FIRST_ID + 3):
            brokers.heartbeat(id, fence=False)


def test_click_and_keys_show_a_change_and_the_link_keeps_it(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser
) -> None:
    create(server, "linked", partitions=2)
    chromium.open(url(server, "#view=timeline&name=linked"))
    wait_for_all(chromium)
    once(chromium, "document.querySelectorAll('#list .row').length === 4")
    chromium.evaluate("document.querySelector('#list .row').click()")
    once(chromium, "document.querySelector('#detail h2')?.textContent.includes('linked')")
    first = chromium.evaluate("document.querySelector('#detail h2').textContent")
    chromium.evaluate("document.getElementById('list').focus()")
    chromium.press("ArrowDown")
    once(chromium, f"document.querySelector('#detail h2').textContent !== '{first}'")
    shown = chromium.evaluate("document.getElementById('detail').textContent")
    assert "PARTITION_RECORD" in shown and "asked for by User:ANONYMOUS" in shown
    once(chromium, "location.hash.includes(`at=${changes.place(timeline.selected)}`)")
    link = chromium.evaluate("location.href")
    chromium.open("about:blank")
    chromium.open(link)
    once(chromium, "document.querySelector('#detail h2') !== null")
    assert chromium.evaluate("document.getElementById('detail').textContent") == shown


def test_tabs_move_by_keys(server: Gateway, brokers: SimulatedBrokers, chromium: Browser) -> None:
    chromium.open(url(server))
    wait_for_all(chromium)
    chromium.evaluate("document.getElementById('tab-quorum').focus()")
    seen = []
    for _ in _VIEWS:
        chromium.press("ArrowRight")
        seen.append(chromium.evaluate("current.view"))
    assert seen == [*_VIEWS[1:], _VIEWS[0]]


def test_state_and_difference_are_shown(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser
) -> None:
    chromium.open(url(server, "#view=state"))
    once(chromium, "document.querySelectorAll('#tree button.node').length > 5")
    for name in ("topics", "byName", "orders", "0"):
        chromium.evaluate(
            "[...document.querySelectorAll('#tree button.node')]"
            f".filter(one => one.textContent === '{name}').at(-1).click()"
        )
        once(
            chromium,
            f"[...document.querySelectorAll('#tree button.node')].some(one => "
            f"one.textContent === '{name}' && one.parentElement.querySelector('ul'))",
        )
    text = chromium.evaluate("document.getElementById('tree').textContent")
    topic_id = image(server).topic_ids["orders"]
    partition = image(server).partitions[topic_id][0]
    assert f"replicas: {list(partition.replicas)}".replace(" ", "") in text.replace(" ", "")
    with Admin([server.bootstrap]) as admin:
        begin = chromium.evaluate("now.log.end")
        create(server, "gone")
        admin.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=10_000))
        create(server, "stays")
    chromium.evaluate(f"document.getElementById('state-before').value = '{begin}'")
    chromium.evaluate("document.getElementById('compare').click()")
    once(chromium, "document.querySelector('#tree .difference') !== null")
    lines = chromium.evaluate(
        "[...document.querySelectorAll('#tree .difference > span')].map(one => one.textContent)"
    )
    assert "+ /topics/byName/stays" in lines and not any("gone" in line for line in lines)


def test_bytes_are_dissected_on_the_page(server: Gateway, chromium: Browser) -> None:
    chromium.open(url(server, "#view=wire"))
    once(chromium, "document.querySelectorAll('#fields li').length > 0")
    chromium.evaluate("document.getElementById('hex').value = '00120000000000070003666f6f'")
    chromium.evaluate("document.querySelector('#wire-form button').click()")
    once(chromium, "document.getElementById('dissected').textContent.includes('foo')")
    script = f"showCapture(new File([Uint8Array.from({list(capture())})], 'x.pcap'))"
    chromium.evaluate(script)
    once(chromium, "document.querySelectorAll('#dissected details').length > 2")
    chromium.evaluate("document.querySelector('#dissected summary').click()")
    once(chromium, "document.querySelectorAll('#dissected details li').length > 2")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_sections_fit_their_window(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser, width: int, dark: bool
) -> None:
    for view in _VIEWS:
        chromium.open(url(server, f"#view={view}"), width=width, dark=dark)
        wait_for_all(chromium)
        assert chromium.evaluate(TOO_WIDE) <= 0, view
    assert chromium.errors == []


def test_page_asks_only_its_server(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser
) -> None:
    chromium.loaded.clear()
    chromium.open(url(server))
    wait_for_all(chromium)
    assert all(one.startswith((url(server), "data:,")) for one in chromium.loaded)


def test_browser_logs_in_with_the_token(tmp_path: Path, chromium: Browser) -> None:
    token = "a-token-of-more-than-16-characters"
    config = tmp_path / "server.properties"
    config.write_text(f"source=sample\nmanagement.listener=127.0.0.1:0\nmanagement.token={token}\n")
    with gateway("--config", str(config)) as running:
        chromium.open(url(running))
        assert "management.token" in chromium.evaluate("document.body.textContent")
        for given, answer in (("wrong", "management.token"), (token, "high watermark")):
            chromium.errors.clear()  # the browser notes a response of 401
            chromium.submit("form", f"document.querySelector('input').value = '{given}'")
            once(chromium, f"document.body.textContent.includes('{answer}')")
        wait_for_all(chromium)
        assert figures(chromium)["topic"] != "0"
        assert chromium.evaluate("document.cookie") == "", "the script cannot read the cookie"
        chromium.open(url(running, "#view=wire"))
        once(chromium, "document.querySelectorAll('#fields li').length > 0")
        assert chromium.errors == []


def test_hidden_page_asks_nothing(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser
) -> None:
    def see(state: str) -> None:
        chromium.evaluate(
            f"Object.defineProperty(document, 'visibilityState', {{value: '{state}',"
            " configurable: true}); document.dispatchEvent(new Event('visibilitychange'))"
        )

    def asked() -> int:
        """The requests since they were forgotten."""
        chromium.evaluate("0")
        return len(chromium.loaded)

    chromium.open(url(server))
    wait_for_all(chromium)
    chromium.loaded.clear()
    until(asked, "a visible page asks")
    see("hidden")
    time.sleep(0.7)  # the request that was under way
    asked()
    chromium.loaded.clear()
    time.sleep(1)  # twice the time after which a visible page asks
    assert asked() == 0
    see("visible")
    until(asked, "the page asks again")


def test_stale_is_said_when_the_server_is_gone(tmp_path: Path, chromium: Browser) -> None:
    with contextlib.ExitStack() as stack:
        arguments = ["--data-dir", str(tmp_path / "data"), "--management-listener", "127.0.0.1:0"]
        running = stack.enter_context(gateway(*arguments))
        chromium.open(url(running))
        once(chromium, "document.getElementById('health').className === 'live'")
        stack.close()
        once(chromium, "document.getElementById('health').className === 'stale'")
    assert health(chromium).startswith("stale since ")
    chromium.errors.clear()  # the browser notes the requests that failed


@pytest.mark.speed
def test_open_page_takes_little_processor_time_of_the_server(
    server: Gateway, brokers: SimulatedBrokers, chromium: Browser
) -> None:
    chromium.open("about:blank")
    span_s = 2.5
    costs = []
    for page in ("about:blank", url(server, "#view=timeline")):
        chromium.open(page)
        if page.startswith("http"):
            wait_for_all(chromium)
        time.sleep(0.5)
        before = _processor_s(server.pid)
        time.sleep(span_s)
        costs.append((_processor_s(server.pid) - before) / span_s)
    share = costs[1] - costs[0]
    FIGURES.append(f"page: an open page takes {100 * share:.1f} % of a core of the server")
    note("processor time of the server in a second of an open page", share, usual_s=0.01)


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
