"""How we connect to Kafka as a client: protocol, TLS and SASL settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How to connect. Without any settings: PLAINTEXT."""

    protocol: str = "PLAINTEXT"  #: ``security.protocol``

    def __str__(self) -> str:
        return self.protocol
