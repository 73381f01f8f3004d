"""A broker that is killed under load loses nothing that it acknowledged: a few rounds of
``tools.broker_kills``.
"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.interop.clients import need_clients
from tools.broker_kills.__main__ import main

pytestmark = pytest.mark.interop


def test_acknowledged_records_and_transactions_are_there_after_kills() -> None:
    need_clients()
    done = CliRunner().invoke(main, ["--rounds", "5"])
    assert done.exit_code == 0, done.output
    [line] = [line for line in done.stdout.splitlines() if line.startswith("{")]
    report = json.loads(line)
    assert report["violations"] == []
    assert all(report[name] for name in ("acknowledged", "committed", "copied", "keyed"))
