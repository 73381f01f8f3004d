"""Reads why clients and servers do not keep rules, for ``tools.conformance_reports``:
``client_causes.toml`` and ``server_causes.toml``. A cause explains all rules that one fault breaks.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from kwire.conformance.outcome import Result

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Cause:
    """A fault of a server, as ``server_causes.toml`` describes its members."""

    rules: tuple[str, ...]
    does: str
    repeated: str
    said: str = ""

    def explains(self, result: Result) -> bool:
        """Whether the result comes from this fault."""
        return any(fnmatchcase(result.rule.id, one) for one in self.rules) and bool(
            re.search(self.said, result.sentence)
        )


def client_causes() -> dict[tuple[str, str], str]:
    """Return why a rule is not kept, by names of client and rule."""
    return {
        (client, rule): cause["why"]
        for client, causes in _read("client_causes.toml").items()
        for cause in causes
        for rule in cause["rules"]
    }


def server_causes() -> dict[str, tuple[Cause, ...]]:
    """Return the causes by name of the server. The first one that explains a result counts."""
    return {
        server: tuple(Cause(**{**cause, "rules": tuple(cause["rules"])}) for cause in causes)
        for server, causes in _read("server_causes.toml").items()
    }


def _read(name: str) -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads((_HERE / name).read_text(encoding="utf-8"))
