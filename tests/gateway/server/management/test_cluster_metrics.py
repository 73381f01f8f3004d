"""Metrics of the cluster from servers of each source, and the dashboard over them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.app.node import serve
from gateway.config.config import Config
from gateway.server.management.cluster_facts import ClusterFacts
from gateway.server.sources.metadata_source import SAMPLE
from gateway.sources.log_image import ServedFiles
from gateway.sources.log_source import open_log
from gateway.sources.metadata_loader import MetadataLoader
from tests.gateway.page.sample_log import state
from tests.gateway.server.harness import run
from tests.gateway.server.loopback_quorum import LoopbackQuorum, loopback_quorum
from tests.gateway.server.management.http_client import Port
from tests.gateway.server.management.test_page_api import END
from tests.gateway.server.observed import LOCAL, config
from tests.gateway.server.own_nodes import lone_config
from tests.operation_files import alerts, dashboard, filled, metrics_in
from tests.waiting import until_async

CONTROLLER = "kafka_controller_kafkacontroller_"
REPLICAS = "kafka_server_replicamanager_"
#: Metrics that have no value before something has happened, by label or kind of event.
AFTER_EVENTS = (
    "kwire_request_",
    "kwire_connections_cut_total",
    "kwire_group_refusals_total",
    "kwire_groups",
    "kwire_upstream_fetch_errors_total",
    "kafka_server_snapshotemitter_",
    "kafka_server_raft_metrics_commit_latency",
    "kafka_controller_controllereventmanager_",
    "kwire_worker_",
    "kwire_transaction",  # counted every 10 s
)
#: Rows of the dashboard that are for one source.
ROW_OF = {
    "Observer (source=observer)": "observer",
    "Controller (source=controller)": "controller",
    "Topics of a broker": "sample",  # of these servers, the one that is a broker
}
QUORUM = ("kafka_server_raft_metrics_", "kafka_server_metadataloader_")


@contextlib.asynccontextmanager
async def server(settings: Config) -> AsyncIterator[Port]:
    """The management port of a running server."""
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        ready = await nursery.start(serve, settings, stop)
        assert ready.management is not None
        yield Port(ready.management.port)
        stop.set()
        await ready.ended.wait()


async def scraped(port: Port) -> dict[str, dict[tuple[str, ...], float]]:
    """Name -> label values -> value."""
    async with port.client() as client:
        text = (await client.get("/metrics")).body.decode()
    found: dict[str, dict[tuple[str, ...], float]] = {"up": {(): 1}}
    for family in parse_text(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


async def counted(port: Port) -> dict[str, dict[tuple[str, ...], float]]:
    """The metrics once the image is loaded."""
    return await until_async(
        lambda: scraped(port),
        "counts",
        holds=lambda found: CONTROLLER + "globaltopiccount" in found,
    )


def of(source: str, tmp_path: Path, quorum: LoopbackQuorum | None = None) -> Config:
    """The configuration of a server of a source, with a management port."""
    more: Any = {"management_listener": "127.0.0.1:0", "state_dir": tmp_path / "state"}
    if source == "observer":
        assert quorum is not None
        return config(tmp_path / "data", quorum, **more)
    if source == "controller":
        return lone_config(tmp_path / "data", **more)
    return Config(listeners=(LOCAL,), log_dirs=(SAMPLE,) if source == "log" else (), **more)


@pytest.mark.parametrize("source", ["controller", "observer", "log", "sample"])
def test_dashboard_and_alerts_have_their_metrics_of_every_source(
    source: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum, server(of(source, tmp_path, quorum)) as port:
            found = await counted(port)
        row, missing = "", set[str]()
        for panel in dashboard()["panels"]:
            row = panel["title"] if panel["type"] == "row" else row
            if ROW_OF.get(row, source) == source:
                for target in panel.get("targets", ()):
                    missing |= metrics_in(filled(target["expr"])) - found.keys()
        for alert in alerts().values():
            names = metrics_in(alert["expr"])
            if any(one.startswith(CONTROLLER) and "active" not in one for one in names):
                missing |= names - found.keys()
        optional = AFTER_EVENTS + (QUORUM if source in ("log", "sample") else ())
        optional += () if found[CONTROLLER + "activebrokercount"][()] else (REPLICAS,)
        assert [one for one in sorted(missing) if not one.startswith(optional)] == []

    run(main)


def test_server_of_a_log_directory_counts_its_cluster(tmp_path: Path) -> None:
    async def main() -> None:
        async with server(of("log", tmp_path)) as port:
            found = await counted(port)
        assert found[CONTROLLER + "globaltopiccount"] == {(): len(state(END).topics)}
        leaders, replicas = found[REPLICAS + "leadercount"], found[REPLICAS + "partitioncount"]
        partitions = found[CONTROLLER + "globalpartitioncount"][()]
        offline = found[CONTROLLER + "offlinepartitionscount"][()]
        assert sum(leaders.values()) == partitions - offline
        assert partitions == 101
        assert replicas.keys() == leaders.keys() and sum(replicas.values()) >= partitions
        assert found[CONTROLLER + "brokerregistrationstate"].keys() >= leaders.keys()

    run(main)


def test_log_that_is_cut_is_read_anew(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(SAMPLE / "__cluster_metadata-0", directory)
    log = open_log(directory)
    while log.refresh_delay_s == 0:
        log.refresh()
    loader = MetadataLoader(directory)
    files, facts = ServedFiles(log, loader), ClusterFacts(loader)

    def fold() -> None:
        more = True
        while more:
            more = loader.decode_step(files.committed)
            more |= loader.apply_step()
            assert not any(loader.publish())

    fold()
    assert loader.next_offset == log.high_watermark
    whole, counts, image = log.high_watermark, facts.counts, loader.image
    segment = next(directory.glob("*.log"))
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size // 2)
    for _ in range(10):
        log.refresh()
    assert 0 < log.high_watermark < whole
    fold()
    assert loader.next_offset == log.high_watermark and loader.image is not image
    assert facts.counts is not None and facts.counts != counts
    settled = loader.image
    fold()
    assert loader.image is settled


def test_scrape_looks_at_no_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with server(of("sample", tmp_path)) as port:
            await counted(port)

            def looked(*_: Any) -> Any:
                raise AssertionError("a scrape counts nothing")

            monkeypatch.setattr("gateway.sources.cluster_counts.ClusterCounter._add", looked)
            monkeypatch.setattr("gateway.sources.cluster_counts.ClusterCounter._replace", looked)
            assert (await scraped(port))[CONTROLLER + "globaltopiccount"]

    run(main)
