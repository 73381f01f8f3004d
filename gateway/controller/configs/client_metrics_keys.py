"""Lists the configuration keys of a client metrics subscription (KIP-714) of Kafka 4.4.0.

Follows ``ClientMetricsConfigs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.base.java.patterns import pattern_fault
from gateway.base.java.text import trim
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
#: Reading a character of a pattern takes up to 4 µs, and the event loop waits for it.
_PATTERNS_CHARS_MAX: Final = 4096


def _patterns(value: Value) -> str | None:
    elements = value if isinstance(value, list) else []
    if sum(map(len, elements)) > _PATTERNS_CHARS_MAX:
        return f"more than {_PATTERNS_CHARS_MAX} characters of patterns"
    for one in elements:
        # Empty parts at the end do not count (``String.split``).
        selector, *patterns = one.rstrip("=").split("=")
        if trim(selector) not in _SELECTORS or len(patterns) != 1:
            return f"Illegal client matching pattern: {one}"
        if (fault := pattern_fault(trim(patterns[0]))) is not None:
            return f"Illegal client matching pattern: {one}: {fault}"
    return None


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
