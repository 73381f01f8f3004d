"""AlterConfigs: replaces the whole configuration of a resource.

The rules and the records of a change are in ``config_changes``. Follows
``ConfigurationControlManager.legacyAlterConfigs``.
"""

from __future__ import annotations

from typing import Final

from gateway.controller.admin_api import AdminApi
from gateway.controller.config_changes import config_api, replacement
from kwire.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse
from kwire.protocol import ApiKey

API: Final[AdminApi] = config_api(
    key=ApiKey.ALTER_CONFIGS,
    operation="legacyAlterConfigs",
    changes_of=replacement,
    response=AlterConfigsResponse,
    result=AlterConfigsResourceResponse,
)
