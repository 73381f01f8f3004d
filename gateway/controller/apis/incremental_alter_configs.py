"""IncrementalAlterConfigs: sets, unsets and extends configuration keys (KIP-339).

The rules and the records of a change are in ``config_changes``. Follows
``ConfigurationControlManager.incrementalAlterConfigs``.
"""

from __future__ import annotations

from typing import Final

from gateway.controller.admin_api import AdminApi
from gateway.controller.config_changes import config_api, increments
from kwire.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kwire.protocol import ApiKey

API: Final[AdminApi] = config_api(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    operation="incrementalAlterConfigs",
    changes_of=increments,
    response=IncrementalAlterConfigsResponse,
    result=AlterConfigsResourceResponse,
)
