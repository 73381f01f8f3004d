"""The first hour of a user, by the letter of the pages: the wheel in an environment of its own,
away from the checkout, a secured quorum of three, and a Kafka with SASL_SSL that is observed.

``walkthrough`` follows the pages. Addresses are the only texts that are replaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.documented import ROOT, Block, blocks
from tests.interop.clients import need_clients
from tests.interop.prometheus import OF_BROKERS, WITHOUT_DATA, scraping
from tests.interop.walkthrough import Walk
from tools import java
from tools.kafka import kafka
from tools.kafka_security import secured
from tools.process import lasting_ports

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

#: Every server has metrics at a port that the system picks.
METRICS: Final = {"KWIRE_MANAGEMENT_LISTENER": "127.0.0.1:0"}
#: Commands that read a server, each of which has to print something.
READING: Final = ("tail", "state", "diff", "apis", "conform", "quorum", "views")
#: Panels about requests that controllers decide: an observer has none.
OF_CONTROLLERS: Final = frozenset(
    {
        "Active controllers",
        "Commit latency",
        "Forwarded requests",
        "Operations of the controller",
        "Time to decide a request",
    }
)


@pytest.fixture(scope="module")
def kwire(installed: Path) -> Path:
    """The program, in an environment that holds the wheel and nothing of the checkout."""
    need_clients()
    return installed / "kwire"


def section(page: str, *headings: str) -> list[Block]:
    """The blocks of a page's sections."""
    inside, title, is_code = {}, "", False
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        is_code ^= line.startswith("```")
        title = line.lstrip("# ") if line.startswith("#") and not is_code else title
        inside[number] = title
    found = [one for one in blocks() if one.page == page and inside[one.line] in headings]
    assert found, (page, headings)
    return found


def ports(*theirs: str) -> dict[str, str]:
    """Addresses of a page, and ones that are free on this machine."""
    return {
        address: f"127.0.0.1:{port}"
        for address, port in zip(theirs, lasting_ports(len(theirs)), strict=True)
    }


@pytest.fixture
def walks() -> Iterator[list[Walk]]:
    """A list: the readers in it are stopped at the end."""
    made: list[Walk] = []
    yield made
    for walk in made:
        walk.stop()


def begin(
    walks: list[Walk], kwire: Path, directory: Path, replaced: Mapping[str, str], **more: str
) -> Walk:
    walks.append(Walk(directory, kwire, replaced, {**METRICS, **more}))
    return walks[-1]


def printed(walk: Walk) -> dict[str, str]:
    """The output of each reading command; all have some."""
    found = {
        line: text
        for line, text in walk.said.items()
        if line.split()[0] == "kwire" and line.split()[1] in READING
    }
    assert all(text.strip() for text in found.values()), found.keys()
    return found


def management(walk: Walk, server: int = 0) -> str:
    return str(walk.ready(walk.servers[server])["management"])


def test_secured_quorum_of_three_by_the_letter(
    kwire: Path, walks: list[Walk], tmp_path: Path
) -> None:
    theirs = [f"127.0.0.1:{number}909{kind}" for number in (1, 2, 3) for kind in (2, 3)]
    walk = begin(walks, kwire, tmp_path, ports(*theirs))
    walk.follow(section("docs/security.md", "A secured quorum of three"))
    said = printed(walk)
    assert "The configuration is good." in "".join(walk.said.values())
    status = next(text for line, text in said.items() if "quorum describe" in line)
    assert len(json.loads(status)["currentVoters"]) == 3
    (tmp_path / "prometheus").mkdir()
    nodes = [management(walk, number) for number in range(3)]
    with scraping(tmp_path / "prometheus", *nodes) as prometheus:
        assert prometheus.unanswered(*nodes) - WITHOUT_DATA - OF_BROKERS == set()


def test_observed_kafka_with_sasl_ssl_by_the_letter(
    kwire: Path, walks: list[Walk], tmp_path: Path
) -> None:
    security: dict[str, Any] = secured(tmp_path, "SASL_SSL").options()
    with kafka(**security) as cluster:
        node = cluster.nodes[0]
        theirs = {
            "b1:9092": node.broker_address,
            "ctl1:9093,ctl2:9093": node.controller_address,
            "/etc/kafka/ca.pem": str(tmp_path / "ca.pem"),
            "/var/lib/kwire": str(tmp_path / "copy"),
            **ports("127.0.0.1:9092"),
        }
        listener = f"PLAINTEXT://{theirs['127.0.0.1:9092']}"
        walk = begin(walks, kwire, tmp_path, theirs, KWIRE_LISTENERS=listener)
        walk.follow(section("docs/quorum-source.md", "Security"))
        assert "The configuration is good." in "".join(walk.said.values())
        cluster.tool(java.TOPICS, ["--create", "--topic", "orders", "--partitions", "2"])
        walk.run(["kwire", "tail", "-b", theirs["127.0.0.1:9092"], "--until-end"])
        (tmp_path / "prometheus").mkdir()
        with scraping(tmp_path / "prometheus", management(walk)) as prometheus:
            empty = prometheus.unanswered(management(walk))
            assert empty - WITHOUT_DATA - OF_CONTROLLERS - OF_BROKERS == set()


def test_readme_by_the_letter(kwire: Path, walks: list[Walk], tmp_path: Path) -> None:
    theirs = ports("127.0.0.1:9092")
    theirs["localhost:9092"] = theirs["127.0.0.1:9092"]
    listener = f"PLAINTEXT://{theirs['127.0.0.1:9092']}"
    walk = begin(walks, kwire, tmp_path, theirs, KWIRE_LISTENERS=listener)
    elsewhere = ("ctl1:", "/var/lib/")  # clusters and files that are not here
    found = [one for one in section("README.md", "kwire") if one.language == "bash"]
    walk.follow([one for one in found if not any(text in one.text for text in elsewhere)])
    assert "orders" in next(text for line, text in printed(walk).items() if ".changes" in line)


@pytest.mark.parametrize("heading", ["Several nodes", "Voters in the log"])
def test_own_quorum_of_three_by_the_letter(
    heading: str, kwire: Path, walks: list[Walk], tmp_path: Path
) -> None:
    """The page shows the commands of node 1: those of 2 and 3 have other ids and hosts."""
    clients, controllers = lasting_ports(2)
    mine: dict[str, str] = {}
    for id in (1, 2, 3):
        mine |= {f"h{id}:9092": f"127.0.0.{id}:{clients}"}
        mine |= {f"h{id}:9093": f"127.0.0.{id}:{controllers}"}
    walk = begin(walks, kwire, tmp_path, mine)
    for id in (1, 2, 3):
        mine[f"DIRECTORY_ID_{id}"] = walk.run(["kwire", "format", "--random-uuid"]).strip()
    shown, *_ = section("docs/own-quorum.md", heading)
    for id in (1, 2, 3):
        theirs = shown.text.replace("--node-id 1", f"--node-id {id}")
        theirs = theirs.replace("://h1:", f"://h{id}:").replace("/var/lib/kwire", f"node-{id}")
        walk.follow([shown._replace(text=theirs)], wait=id == 3)
    status = ["kwire", "quorum", "describe", "--status", "-b", mine["h2:9092"]]
    assert len(json.loads(walk.run(status))["currentVoters"]) == 3
