"""Who may do what. Pure: asked through the port ``gateway.ports.Authorizer``."""

from __future__ import annotations


class AllowAll:
    """Everybody may do everything that this server does, as in Kafka without ``authorizer.class.name``."""

    def allows(self, principal: str, host: str, operation: str, resource_type: str, resource_name: str) -> bool:
        """Always true."""
        return True
