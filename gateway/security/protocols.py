"""Which security protocols a listener may have. A listener that asks for more than there is keeps the server from starting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.config import ConfigError

if TYPE_CHECKING:
    from gateway.config import Config

SUPPORTED: Final = frozenset({"PLAINTEXT"})


def check_security(config: Config) -> None:
    """Fail closed: raise ConfigError if a listener names a protocol that this version cannot keep."""
    problems = [
        f"listener.security.protocol.map: the listener {listener.name} asks for {config.security_protocol(listener.name)}, which "
        f"this version does not have; it would be served unprotected, so the server does not start. Use PLAINTEXT on a "
        f"trusted network, or put a TLS proxy in front"
        for listener in config.listeners
        if config.security_protocol(listener.name) not in SUPPORTED
    ]
    if problems:
        raise ConfigError(*problems)
