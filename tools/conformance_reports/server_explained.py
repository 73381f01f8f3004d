"""Explains the rules that servers do not keep, for ``tools.conformance_reports``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tools.conformance_reports.causes import Cause
from tools.conformance_reports.kfake_explained import KFAKE
from tools.conformance_reports.mock_explained import MOCK

_KWIRE: Final = (
    Cause(
        "api-versions.no-removed-versions",
        "ListOffsets 0 is served for clients of before Kafka 0.10.1",
        "`kafka-broker-api-versions` lists it",
    ),
)

#: By name of the server. The first one that explains a result counts.
CAUSES: Final[Mapping[str, tuple[Cause, ...]]] = {
    "kfake": KFAKE,
    "mock": MOCK,
    "kwire-broker": _KWIRE,
    "kwire-observer": _KWIRE,
    "kwire-log": _KWIRE,
}
