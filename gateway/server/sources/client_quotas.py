"""Makes the quotas of clients of a node, which follow its metadata log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.broker.quotas.client_quotas import ClientQuotas
from gateway.broker.quotas.samples import QuotaSettings

if TYPE_CHECKING:
    from gateway.config.config import Config
    from gateway.sources.metadata_loader import MetadataLoader

_MS: Final = 1000


def client_quotas(config: Config, loader: MetadataLoader) -> ClientQuotas:
    """Return the quotas, subscribed to the image of ``loader``, which is not loaded yet."""
    made = ClientQuotas(
        QuotaSettings(config.quota_window_num, config.quota_window_size_seconds * _MS),
        QuotaSettings(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * _MS
        ),
        trio.current_time,
    )
    loader.subscribe(made.on_update, made.prepare)
    return made
