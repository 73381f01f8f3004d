"""The configuration keys of a subscription to clients' metrics (KIP-714) in Kafka 4.4.0."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.controller.configs.config_def import ConfigKey, ConfigType, Value

#: How often a client may be asked to push, ms.
INTERVAL_MS: Final = range(100, 3_600_001)
#: What of a client a pattern can be compared with.
_SELECTORS: Final = frozenset((
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
))  # fmt: skip
_PATTERN_CHARS_MAX: Final = 1000


def _patterns(value: Value) -> str | None:
    for one in value if isinstance(value, list) else []:
        selector, _, pattern = one.partition("=")
        if (
            selector.strip() not in _SELECTORS
            or not pattern
            or "=" in pattern
            or not _is_pattern(pattern.strip())
        ):
            return f"Illegal client matching pattern: {one}"
    return None


def _is_pattern(text: str) -> bool:
    """Python's regular expressions stand in for Java's: what only one of them knows is rare in
    names and addresses.
    """
    if len(text) > _PATTERN_CHARS_MAX:
        return False
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


#: By name, in the order of the names.
CLIENT_METRICS_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType({
    key.name: key
    for key in (
        ConfigKey("interval.ms", ConfigType.INT, "300000", help="How often clients push, ms."),
        ConfigKey("match", ConfigType.LIST, "", check=_patterns, help="Which clients: selector=pattern, all must match."),
        ConfigKey("metrics", ConfigType.LIST, "", help="Prefixes of the names of the metrics that are pushed; * is all."),
    )
})  # fmt: skip
