"""Every source of ``kwire serve`` keeps every rule of its role; what it refuses is not offered."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli import conform
from tools.gateway_process import Gateway, gateway

_SAMPLE = Path(conform.__file__).resolve().parents[1] / "sample"
#: Kept on purpose: kafka-python 2.0 and older clients ask for offsets in version 0.
_ADVICE = {"api-versions.no-removed-versions"}
#: The outcomes of rules that a server keeps, or that are not about it.
_RIGHT = {"pass", "not offered", "not applicable", "not tried"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A quorum of one, with snapshots that a follower can fetch."""
    data = tmp_path_factory.mktemp("own") / "data"
    more = ("--metadata-log-max-snapshot-interval-ms", "1000")
    with gateway("--process-roles", "controller", "--data-dir", str(data), *more) as running:
        yield running


@contextlib.contextmanager
def _sample(own: Gateway, directory: Path) -> Iterator[str]:
    with gateway("--source", "sample") as running:
        yield running.bootstrap


@contextlib.contextmanager
def _log(own: Gateway, directory: Path) -> Iterator[str]:
    shutil.copytree(_SAMPLE, directory / "log")
    with gateway("--source", "log", "--log-dir", str(directory / "log")) as running:
        yield running.bootstrap


@contextlib.contextmanager
def _observed_quorum(own: Gateway, directory: Path) -> Iterator[str]:
    controllers = own.ready["listeners"]["CONTROLLER"]
    where = ("--bootstrap-controller", controllers, "--data-dir", str(directory / "data"))
    with gateway("--source", "quorum", *where) as running:
        yield running.bootstrap


@contextlib.contextmanager
def _own_quorum(own: Gateway, directory: Path) -> Iterator[str]:
    yield own.bootstrap


@contextlib.contextmanager
def _controller_of_own_quorum(own: Gateway, directory: Path) -> Iterator[str]:
    yield own.ready["listeners"]["CONTROLLER"]


@pytest.mark.parametrize(
    ("serve", "role", "least"),
    [
        (_sample, "broker", 860),
        (_log, "broker", 860),
        (_observed_quorum, "broker", 860),
        (_own_quorum, "broker", 900),
        (_controller_of_own_quorum, "controller", 620),
    ],
)
def test_a_source_keeps_every_rule_of_its_role(
    serve: Callable[[Gateway, Path], Any], role: str, least: int, own: Gateway, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    with serve(own, tmp_path) as address:
        result = CliRunner().invoke(conform.command, [address, "--json", str(file)])
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert report["roles"] == [role]
    assert report["remarks"] == []
    assert report["counts"]["pass"] >= least
    broken = {one["rule"]: one for one in report["results"] if one["outcome"] not in _RIGHT}
    assert broken.keys() <= _ADVICE, broken
