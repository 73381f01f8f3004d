"""The files of docs/examples/containers, without an image: the services run as processes of this
machine, with the settings that the compose file gives them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.documented import ROOT
from tests.interop.clients import missing
from tests.operation_files import DASHBOARD, RULES
from tools.gateway_process import KWIRE, gateway
from tools.kafka import kafka

pytestmark = pytest.mark.interop

FILES: Final = ROOT / "docs" / "examples" / "containers"
COMPOSE: Final = yaml.safe_load((FILES / "compose.yaml").read_text())
SERVICES: Final[dict[str, Any]] = COMPOSE["services"]
#: Keys that the launcher of the tests sets: the place of a node and its peers.
_OF_THE_NODE: Final = (
    "node.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "controller.listener.names",
    "controller.quorum.voters",
)


def _options(service: str) -> dict[str, str]:
    """The options of a service's command, by name."""
    return dict(word.split("=", 1) for word in SERVICES[service]["command"][1:])


def test_files_that_services_mount_are_there() -> None:
    mounts = [
        mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", ())
    ]
    files = [(FILES / mount).resolve() for mount in mounts if mount.startswith(".")]
    assert {RULES, DASHBOARD} <= set(files)
    assert all(file.is_file() for file in files)
    assert {mount for mount in mounts if not mount.startswith(".")} == set(COMPOSE["volumes"])


def test_every_published_port_is_bound_to_loopback() -> None:
    ports = [port for service in SERVICES.values() for port in service["ports"]]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports)


def test_promtool_accepts_the_configuration_of_prometheus(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        missing("promtool is not on the PATH")
    for source in (FILES / "prometheus.yml", RULES):
        shutil.copy(source, tmp_path)
    command = ["promtool", "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_in_the_configurations_are_services_with_those_ports() -> None:
    [scraped] = yaml.safe_load((FILES / "prometheus.yml").read_text())["scrape_configs"]
    [target] = scraped["static_configs"][0]["targets"]
    assert target == "kwire:" + _options("kwire")["--management-listener"].partition(":")[2]
    assert _options("kwire")["--management-allowed-hosts"] == "kwire"
    [source] = yaml.safe_load((FILES / "grafana-datasources.yml").read_text())["datasources"]
    assert source["url"].removeprefix("http://").split(":")[0] in SERVICES
    advertised = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"CONTROLLER://{_options('kwire')['--bootstrap-controller']}" in advertised


def test_default_command_and_health_check_of_the_image_work(tmp_path: Path) -> None:
    text = (FILES / "Containerfile").read_text().replace("\\\n", "")
    words = json.loads(re.search(r"^CMD (\[.*\])$", text, re.MULTILINE)[1])  # type: ignore[index]
    check = json.loads(re.search(r"^HEALTHCHECK .*? CMD (\[.*\])$", text, re.MULTILINE)[1])  # type: ignore[index]
    assert words[0] == "serve"
    done = subprocess.run([*KWIRE, *words, "--check-config"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    options = ("--management-listener", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    with gateway("--source", "own", *options) as running:
        program = check[2].replace("127.0.0.1:9464", running.ready["management"])
        assert subprocess.run([sys.executable, "-c", program]).returncode == 0
    assert subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE).returncode != 0


def test_kwire_of_the_compose_file_observes_its_kafka(tmp_path: Path) -> None:
    environment = SERVICES["kafka"]["environment"]
    # The image of Kafka makes properties of its variables in this way.
    given = {
        key.removeprefix("KAFKA_").lower().replace("_", "."): value
        for key, value in environment.items()
    }
    properties = {key: value for key, value in given.items() if key not in _OF_THE_NODE}
    options = _options("kwire") | {
        "--data-dir": str(tmp_path / "observed"),
        "--management-listener": "127.0.0.1:0",
    }
    del options["--listeners"], options["--advertised-listeners"]
    with kafka(version="4.3.1", properties=properties, static_voters=True) as cluster:
        options["--bootstrap-controller"] = cluster.controllers
        words = [f"{name}={value}" for name, value in options.items()]
        with gateway(*words) as running:
            command = [*KWIRE, "state", "-b", running.bootstrap, "-o", "json"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
            assert "metadata.version" in done.stdout
