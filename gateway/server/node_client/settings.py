"""Holds the parameters of connections to controllers; it opens none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.security.client_properties import ClientSecurity


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """``client_id`` is sent with each request; a connection, and each request, may take
    ``timeout_s``.
    """

    security: ClientSecurity
    client_id: str
    timeout_s: float
