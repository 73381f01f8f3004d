"""AlterConfigs: replaces the whole configuration of a resource.

The rules and the records of a change are in ``config_changes``. Follows
``ConfigurationControlManager.legacyAlterConfigs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision
from gateway.controller.config_changes import alter_configs, named_resources, replacement
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from kwire.messages.alter_configs_request import AlterConfigsRequest


def _decide(request: AlterConfigsRequest, context: ControllerRequestContext) -> SlicedDecision:
    """Set the keys named and unset the others; each resource has its own result."""
    records, results = yield from alter_configs(
        request.resources, replacement, AlterConfigsResourceResponse, context
    )
    return ControllerResult(records, AlterConfigsResponse(responses=results))


def _refuse(request: AlterConfigsRequest, refusal: Refusal) -> Message:
    return AlterConfigsResponse(
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
    key=ApiKey.ALTER_CONFIGS,
    operation="legacyAlterConfigs",
    decide=_decide,
    refuse=_refuse,
    resources=named_resources,
)
