"""The configuration of ``kwire serve``: one frozen value, checked once.

The keys are in ``config_listeners``, ``config_quorum`` and ``config_limits``; ``config_loading``
reads their texts from flags, environment and file. The packages that use a security protocol or a
directory check that it can be used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.base.sizes import KIB, MIB
from gateway.config import checks as config_checks
from gateway.config.key import INT_MAX, key
from gateway.config.limits import LimitKeys
from gateway.config.listeners import client_listener
from gateway.config.values import (
    ENVIRONMENT_PREFIX,
    PARSERS,
    SECURITY_PROTOCOLS,
    ConfigError,
    Key,
    Listener,
    SourceKind,
    parse_log_dir,
)

__all__ = [
    "ALIASES", "ENVIRONMENT_PREFIX", "INT_MAX", "KEYS", "KIB", "MIB", "SECURITY_PROTOCOLS",
    "Config", "ConfigError", "Key", "Listener", "SourceKind",
]  # fmt: skip

_CONTROLLER_PORT: Final = 9093


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(LimitKeys):
    """Every key of the server; ``node_id`` is the key ``node.id``, and so on."""

    drain_timeout_ms: int = key(
        5000,
        "Time after SIGTERM in which responses are still sent before connections are closed.",
        unit="ms",
    )
    log_level: str = key(
        "info",
        "Minimum level of log lines.",
        choices=("debug", "info", "warning", "error"),
    )
    log_format: str = key(
        "auto",
        "Format of the log: 'console' is text, 'json' one JSON object per line; 'auto' is "
        "console on a terminal, else json.",
        choices=("auto", "console", "json"),
    )

    def __post_init__(self) -> None:
        if (
            self.source_kind is SourceKind.CONTROLLER
            and self.listeners
            and not self.controller_listeners
        ):
            added = self._controller_listener()
            object.__setattr__(self, "listeners", (*self.listeners, added))
            known = {added.name: "PLAINTEXT", **self.listener_security_protocol_map}
            object.__setattr__(self, "listener_security_protocol_map", known)
        problems = config_checks.problems(self)
        if problems:
            raise ConfigError(*problems)

    def _controller_listener(self) -> Listener:
        """The controller listener that is added where ``listeners`` has none.

        It is at Kafka's usual port if the client listener is.
        """
        usual = self.listeners == client_listener()
        return Listener(
            self.controller_listener_names[0], "127.0.0.1", _CONTROLLER_PORT if usual else 0
        )

    def security_protocol(self, listener: str) -> str:
        """The security protocol of the listener of that name."""
        return self.listener_security_protocol_map[listener]


def _keys() -> dict[str, Key]:
    keys = {}
    for attribute in dataclasses.fields(Config):
        if not attribute.metadata:  # ``security``, which config_loading fills with many keys
            continue
        name, about = attribute.name.replace("_", "."), attribute.metadata
        keys[name] = Key(
            name=name,
            attribute=attribute.name,
            parse=parse_log_dir if name == "log.dirs" else PARSERS[str(attribute.type)],
            help=about["help"],
            unit=about["unit"],
            default=attribute.default_factory()
            if callable(attribute.default_factory)
            else attribute.default,
            choices=about.get("choices", ()),
            aliases=about.get("aliases", ()),
        )
    return keys


#: Every key by its name, in the order of Config.
KEYS: Final[Mapping[str, Key]] = _keys()
ALIASES: Final = {alias: key.name for key in KEYS.values() for alias in key.aliases}
