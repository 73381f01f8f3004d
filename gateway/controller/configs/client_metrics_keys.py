"""Lists the configuration keys of a client metrics subscription (KIP-714) of Kafka 4.4.0.

Follows ``ClientMetricsConfigs``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.controller.configs.config_def import ConfigKey, ConfigType, Value

#: The intervals at which a client can be told to push, ms.
INTERVAL_MS: Final = range(100, 3_600_001)
#: The properties of a client that a pattern can be for.
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
    """Whether ``text`` is a regular expression.

    Those of Python stand in for Java's: syntax that only one of them has is rare in patterns of
    names and addresses.
    """
    # Compiling takes time that grows with the pattern, and the event loop waits for it.
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
        ConfigKey("match", ConfigType.LIST, "", check=_patterns,
                  help="Which clients: selector=pattern, all must match."),
        ConfigKey("metrics", ConfigType.LIST, "",
                  help="Prefixes of the names of the metrics that are pushed; * is all."),
    )
})  # fmt: skip
