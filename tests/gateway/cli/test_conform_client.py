"""``kwire conform --client``."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli import conform
from tests.waiting import until

_CLIENT = (
    sys.executable, "-m", "tests.kwire.conformance.client.small", "consumer", "no-validation",
    "{bootstrap}", "{topic}",
)  # fmt: skip


def run(*arguments: str) -> Result:
    return CliRunner().invoke(conform.command, list(arguments))


def test_a_program_is_graded(tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    result = run(
        "--client", "--expect-records", "--rule", "client-records.gaps", "--rule",
        "client-fetch.position-validated", "--rule", "client-group.leaves", "--topic", "metrics",
        "-o", "json", "--html", str(html), "--", *_CLIENT,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["roles"] == ["client"]
    lines = {line["rule"]: line for line in report["results"]}
    assert lines["client-records.gaps"]["outcome"] == "pass"
    assert lines["client-group.leaves"]["sentence"] == "the program sends no JoinGroup"
    advice = lines["client-fetch.position-validated"]
    assert advice["outcome"] == "advice"
    assert advice["program"]["stdout"].startswith("kwire-")
    assert "--topic metrics --rule client-fetch.position-validated -- " in advice["repeat"]
    assert advice["repeat"].endswith("no-validation '{bootstrap}' '{topic}'")
    fetch = next(one for one in report["offered"] if one["api"] == "Fetch")
    assert (fetch["minVersion"], fetch["maxVersion"]) == (16, 16)
    assert "client-fetch.position-validated" in html.read_text()


def test_rules_of_clients_are_listed_and_explained() -> None:
    result = run("--client", "--list", "--api", "JoinGroup")
    assert result.exit_code == 0
    assert all(line.startswith("client-") for line in result.output.splitlines())
    assert "role     client" in run("--explain", "client-group.rebalance").output
    assert "client-group" not in run("--list").output


def test_no_program_outlives_a_command_that_is_terminated(tmp_path: Path) -> None:
    started = tmp_path / "started"
    client = f"echo $$ >> {started}; exec {shlex.join(_CLIENT[:5])} {{bootstrap}} {{topic}}"
    command = subprocess.Popen(
        [sys.executable, "-m", "gateway", "conform", "--client", "--rule", "client-throttle.Fetch",
         "--", "sh", "-c", client],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    # The first start learns what the program does, the second one is that of the rule.
    until(lambda: len(_pids(started)) == 2, "two starts of the program")
    command.send_signal(signal.SIGTERM)
    command.communicate(timeout=30)
    assert command.returncode == 130
    first, second = _pids(started)
    assert not Path(f"/proc/{first}").exists()
    assert not Path(f"/proc/{second}").exists()


def _pids(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--client"], 2, "give the command behind --"),
        (["--client", "--", "true"], 2, "the command has no {bootstrap}"),
        (["--client", "--rule", "framing", "--", "true"], 2, "no rule is selected"),
    ],
)
def test_a_command_line_that_cannot_be_run_says_why(
    arguments: list[str], status: int, said: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == status
    assert said in result.output
