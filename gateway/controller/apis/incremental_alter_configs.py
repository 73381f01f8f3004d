"""IncrementalAlterConfigs: sets, unsets and extends configuration keys (KIP-339).

The rules and the records of a change are in ``config_changes``. Follows
``ConfigurationControlManager.incrementalAlterConfigs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision
from gateway.controller.config_changes import alter_configs, increments, named_resources
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from kwire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest


def _decide(
    request: IncrementalAlterConfigsRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Change the keys named; each resource has its own result."""
    records, results = yield from alter_configs(
        request.resources, increments, AlterConfigsResourceResponse, context
    )
    return ControllerResult(records, IncrementalAlterConfigsResponse(responses=results))


def _refuse(request: IncrementalAlterConfigsRequest, refusal: Refusal) -> Message:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=refusal.error,
                error_message=refusal.message,
            )
            for resource in request.resources
        ]
    )


API: Final = AdminApi(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    operation="incrementalAlterConfigs",
    decide=_decide,
    refuse=_refuse,
    resources=named_resources,
)
