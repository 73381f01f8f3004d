"""Writes a report of ``kwire conform`` on a server with faults, and a picture of it.

python -m tests.interop.conform_report docs/conformance-report.png
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

from gateway.cli import conform
from kwire.frame import frame
from kwire.header import peek
from kwire.protocol import ApiKey, ErrorCode
from tests.conformance_faults.proxy import Changed, Fault, Proxy
from tests.interop.browser import browser
from tools.gateway_process import gateway

#: The rules of a test's report: enough for every form of a card, and quick.
RULES: Final = ("api-versions", "framing", "metadata", "schema.ListGroups.*", "schema.Fetch.*")
#: The server has a name in the picture in place of an address.
_NAME: Final = "broker1.example.com:9092"
_HEIGHT: Final = 2300
_SCALE: Final = 0.75
#: The first version of ListGroups with a fault.
_FIRST_WRONG: Final = 4


class SeveralFaults(Fault):
    """Brokers without ports, group lists with a byte too many, no refusal of topics that exist."""

    def __init__(self) -> None:
        self._of_brokers = Changed(ApiKey.METADATA, _without_ports)
        self._of_topics = Changed(ApiKey.CREATE_TOPICS, _exists_not)

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        api, version, _ = peek(request)
        if api == ApiKey.LIST_GROUPS and version >= _FIRST_WRONG:
            return [frame(response, b"\0")]
        changed = self._of_topics if api == ApiKey.CREATE_TOPICS else self._of_brokers
        return changed.response(request, response)


def _without_ports(answer: Any, request: Any) -> None:
    for one in answer.brokers:
        one.port = 0


def _exists_not(answer: Any, request: Any) -> None:
    for one in answer.topics:
        if one.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            one.error_code = ErrorCode.NONE


def write_report(where: Path, rules: Sequence[str] = ()) -> str:
    """Write report.html and report.json of these rules, or all; return the server's address."""
    with (
        gateway("--process-roles", "controller", "--data-dir", str(where / "data")) as server,
        Proxy(server.bootstrap, SeveralFaults()) as proxy,
    ):
        names = [word for rule in rules for word in ("--rule", rule)]
        files = ["--html", str(where / "report.html"), "--json", str(where / "report.json")]
        done = CliRunner().invoke(conform.command, [proxy.address, *names, *files])
    assert done.exit_code == 1, done.output
    return proxy.address


def take_picture(to: Path) -> None:
    """Write a PNG file with the upper part of a whole report."""
    with tempfile.TemporaryDirectory() as directory, browser() as chromium:
        where = Path(directory)
        page = where / "report.html"
        address = write_report(where)
        page.write_text(page.read_text().replace(address, _NAME))
        chromium.open(page.as_uri())
        chromium.screenshot(to, height=_HEIGHT, scale=_SCALE)


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]))
