"""``kwire report``: the file that it writes, its secrets, and logs that it cannot show."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.page.timeline_rows import row_of
from gateway.server.sources.metadata_source import SAMPLE
from kwire.cluster.shell_view import shell_view
from tests.gateway.page.sample_log import changes, state
from tests.gateway.page.test_change_index import counted


def report(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments], standalone_mode=False)


def packed(html: str) -> dict[str, bytes]:
    """The texts that the file holds, by their names."""
    found = re.findall(r'<script type="application/octet-stream" id="data-([^"]+)">([^<]*)<', html)
    return {name: zlib.decompress(base64.b64decode(text)) for name, text in found}


def test_file_has_the_changes_and_the_state_of_the_log(tmp_path: Path) -> None:
    target = tmp_path / "ticket.html"
    result = report(str(SAMPLE), "--html", str(target))
    assert result.exception is None, result.output
    assert str(target) in result.output
    texts = packed(target.read_text())
    facts: Any = json.loads(texts["facts"])
    counts = facts["changes"]["counts"]
    assert {name: counts.get(name, 0) for name in counted(state())} == counted(state())
    assert json.loads(texts["tree"]) == json.loads(json.dumps(shell_view(state())))
    rows = json.loads(texts["rows"])["rows"]
    assert rows == [json.loads(row_of(change)) for change in changes()]
    lines = [
        line
        for number in range(-(-len(rows) // 1000))
        for line in texts[f"lines-{number}"].splitlines()
    ]
    assert [json.loads(line)["op"] for line in lines] == [row[4] for row in rows]


def test_secrets_are_in_no_part_of_the_file(tmp_path: Path) -> None:
    target = tmp_path / "ticket.html"
    report(str(SAMPLE), "--html", str(target))
    html = target.read_text()
    everything = b"".join(packed(html).values()) + html.encode()
    secrets = [
        value
        for one in state().scram.values()
        for value in (one.salt, one.stored_key, one.server_key)
    ]
    assert secrets
    for secret in secrets:
        assert secret.hex().encode() not in everything
        assert base64.b64encode(secret) not in everything


def test_directory_without_a_log_is_an_error(tmp_path: Path) -> None:
    result = report(str(tmp_path), "--html", str(tmp_path / "x.html"))
    assert result.exception is not None and str(tmp_path) in str(result.exception)
    assert not (tmp_path / "x.html").exists()
