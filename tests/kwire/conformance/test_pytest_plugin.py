"""The rules as tests: pytest in a directory of its own, as users start it."""

from __future__ import annotations

import configparser
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kwire.conformance.scripted import server as scripted
from tests.waiting import PATIENCE_S
from tools.gateway_process import gateway

_ROOT = Path(__file__).resolve().parents[3]
_PLUGIN = "kwire.conformance.pytest_plugin"


def run(where: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of pytest in ``where``. A checkout has no entry points: -p names the
    plugin.
    """
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", _PLUGIN, "--pyargs", "kwire.conformance",
         "-p", "no:cacheprovider", *arguments],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with gateway("--source", "sample") as running:
        yield running.bootstrap


def test_each_rule_is_a_test_with_its_id(server: str, tmp_path: Path) -> None:
    allow = tmp_path / "known.txt"
    allow.write_text("api-versions.no-removed-versions  ListOffsets 0 serves old clients\n")
    status, output = run(
        tmp_path, "--conform-bootstrap", server, "--conform-rule", "framing",
        "--conform-rule", "api-versions", "--conform-rule", "schema.Metadata.*",
        "--conform-rule", "schema.Vote.v0.*", "--conform-allow", "known.txt", "-v", "-rxs",
    )  # fmt: skip
    assert status == 0, output
    assert "kwire.conformance::framing.size-zero PASSED" in output
    assert "kwire.conformance::schema.Metadata.v12.answered PASSED" in output
    assert "kwire.conformance::schema.Vote.v0.answered SKIPPED (not applicable: " in output
    assert "XFAIL kwire.conformance::api-versions.no-removed-versions - " in output


def test_a_failure_shows_the_frames_and_the_command(tmp_path: Path) -> None:
    with scripted(lambda connection, request: False) as target:
        status, output = run(
            tmp_path, "--conform-bootstrap", target.name, "--conform-rule", "schema.Metadata.v12.*"
        )
    assert status == 1
    assert "fail: the connection was closed in place of an answer to Metadata v12" in output
    assert f"again   kwire conform {target.name} --rule schema.Metadata.v12.answered" in output
    assert "RequestApiVersion int16 = 12" in output
    assert "received nothing" in output
    assert "Traceback" not in output


def test_releases_select_rules_without_a_server(tmp_path: Path) -> None:
    rules = ("--conform-rule", "framing", "--conform-rule", "api-versions")
    status, output = run(tmp_path, "--collect-only", "-q", "--conform-as-of", "1.0", *rules)
    assert status == 0, output
    assert "kwire.conformance::api-versions.names-itself" in output
    assert "kwire.conformance::api-versions.too-new" not in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give the server: --conform-bootstrap HOST:PORT"),
        (("--conform-bootstrap", "127.0.0.1:1"), "127.0.0.1:1: "),
        (("--conform-allow", "missing.txt"), "--conform-allow: missing.txt"),
    ],
)
def test_a_run_that_cannot_be_tried_says_why(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    status, output = run(tmp_path, *arguments)
    assert status in (2, 4)
    assert said in output


def test_the_entry_point_names_the_plugin() -> None:
    config = configparser.ConfigParser()
    config.read(_ROOT / "setup.cfg")
    entry = config["options.entry_points"]["pytest11"].strip()
    assert entry == f"{_PLUGIN} = {_PLUGIN}"
    assert hasattr(importlib.import_module(_PLUGIN), "pytest_addoption")
