"""``kwire conform`` against ``kwire serve``."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli import conform
from tests.kwire.conformance.scripted import server as scripted
from tools.gateway_process import gateway


def run(*arguments: str) -> Result:
    return CliRunner().invoke(conform.command, list(arguments))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with gateway("--source", "sample") as running:
        yield running.bootstrap


def test_the_sample_keeps_every_rule(server: str, tmp_path: Path) -> None:
    files = {form: tmp_path / f"report.{form}" for form in ("json", "junit", "html")}
    options = [text for form, file in files.items() for text in (f"--{form}", str(file))]
    result = run(server, *options)
    assert result.exit_code == 0, result.output
    report = json.loads(files["json"].read_text())
    assert report["counts"]["pass"] > 600
    assert not {"fail", "timeout", "error"} & report["counts"].keys()
    cases = ElementTree.parse(files["junit"]).findall(".//testcase")
    assert len(cases) == len(report["results"])
    assert files["html"].read_text().startswith("<!doctype html>")


def test_rules_and_apis_are_selected(server: str) -> None:
    result = run(server, "--rule", "schema", "--api", "Metadata", "-o", "json")
    assert result.exit_code == 0, result.output
    rules = {line["rule"] for line in json.loads(result.stdout)["results"]}
    assert "schema.Metadata.v12.answered" in rules
    assert all(rule.startswith("schema.Metadata.") for rule in rules)


def test_a_rule_that_is_broken_gives_status_1_and_its_paragraph() -> None:
    with scripted(lambda connection, request: False) as target:
        result = run(target.name, "--rule", "schema.Metadata.v12.*")
    assert result.exit_code == 1
    assert "FAIL  schema.Metadata.v12.answered" in result.output
    assert f"kwire conform {target.name} --rule schema.Metadata.v12.answered" in result.output


def test_known_failures_are_allowed_and_one_that_passes_is_not(tmp_path: Path) -> None:
    allow = tmp_path / "known.txt"
    allow.write_text("# known\nschema.Metadata.v12.answered  issue 7\n")
    with scripted(lambda connection, request: False) as target:
        arguments = [target.name, "--rule", "schema.Metadata.v12.answered", "--allow", str(allow)]
        assert run(*arguments).exit_code == 0
        allow.write_text("schema.Metadata.v12.truncated issue 8\n")
        result = run(target.name, "--rule", "schema.Metadata.v12.truncated", "--allow", str(allow))
    assert result.exit_code == 1
    assert "NO LONGER FAILS" in result.output


@pytest.mark.parametrize(
    ("line", "sentence"),
    [("no.such-rule reason", "there is no rule no.such-rule"),
     ("framing.size-zero", "framing.size-zero has no reason")],
)  # fmt: skip
def test_a_line_of_the_list_that_says_nothing_is_refused(
    server: str, tmp_path: Path, line: str, sentence: str
) -> None:
    allow = tmp_path / "known.txt"
    allow.write_text(line)
    result = run(server, "--rule", "framing.size-zero", "--allow", str(allow))
    assert result.exit_code == 1
    assert sentence in result.output


def test_no_server_gives_status_2() -> None:
    with scripted(lambda connection, request: False) as target:
        pass
    result = run(target.name)
    assert result.exit_code == 2
    assert target.name in result.stderr


def test_rules_are_listed_without_a_server() -> None:
    result = run("--list", "--api", "Metadata")
    assert result.exit_code == 0
    assert "schema.Metadata.v12.answered" in result.output


def test_a_rule_is_explained() -> None:
    result = run("--explain", "framing.size-zero")
    assert result.exit_code == 0
    assert "NetworkReceive" in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--explain", "framing.size-zer"], "did you mean framing.size-zero?"),
        (["x:1", "--rule", "nothing"], "no rule is selected"),
        (["x:1", "--api", "Nothing"], "no API is called Nothing"),
        (["x:1", "--as-of", "new"], "--as-of new is no release"),
        ([], "give one server"),
        (["x:1", "-b", "y:1"], "give one server"),
        (["x:1", "--html", "/nowhere/at/all.html"], "there is no such directory"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(arguments: list[str], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in result.output


def test_a_log_is_checked_without_a_server(tmp_path: Path) -> None:
    sample = Path(conform.__file__).resolve().parents[1] / "sample"
    result = run("--log", str(sample))
    assert result.exit_code == 0, result.output
    copy = tmp_path / "copy"
    shutil.copytree(sample, copy)
    segment = next(copy.rglob("*.log"))
    segment.write_bytes(segment.read_bytes().replace(b"retention", b"Retention"))
    result = run("--log", str(copy))
    assert result.exit_code == 1
    assert "DAMAGED  log.batch-crc" in result.output
    assert f"{segment.name} at " in result.output


def test_a_directory_without_a_log_gives_status_2(tmp_path: Path) -> None:
    result = run("--log", str(tmp_path))
    assert result.exit_code == 2
    assert "no segments and no snapshots" in result.output
