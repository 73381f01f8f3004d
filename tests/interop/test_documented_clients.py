"""The gateway serves every API and version that docs/clients.md lists as sent by clients."""

from __future__ import annotations

import re
from pathlib import Path

import kwire
from gateway.handlers.table import handlers

_PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "clients.md"
_CALL = re.compile(r"\b([A-Z][A-Za-z]+) (\d+)\b")
#: franz-go begins with a version that Kafka does not have either, and expects to be told so.
_REFUSED = {("ApiVersions", 5)}


def test_every_version_that_a_client_sends_is_served() -> None:
    table = (
        _PAGE.read_text(encoding="utf-8")
        .partition("## Versions that each client sends")[2]
        .partition("\nThree rules")[0]
    )
    served: dict[int | None, range] = {
        handler.api_key: handler.versions for handler in handlers().values()
    }
    known = set(kwire.message_names())
    calls = {
        (name, int(version)) for name, version in _CALL.findall(table) if f"{name}Request" in known
    }
    assert len(calls) > 50
    unserved = {
        (name, version)
        for name, version in calls - _REFUSED
        if version not in served.get(kwire.message_type(f"{name}Request").API_KEY, range(0))
    }
    assert not unserved
