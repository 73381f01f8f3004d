"""UnregisterController: removes the registration of a controller that is gone for good
(``ClusterControlManager``, Kafka 4.4).

The registration alone is removed; a voter of the quorum is removed by RemoveRaftVoter. A controller
that still runs registers again by itself, as Kafka's does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, Resource
from gateway.controller.errors import ApiError
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.unregister_controller_record import UnregisterControllerRecord
from kwire.messages.unregister_controller_response import UnregisterControllerResponse
from kwire.protocol import ApiKey, ErrorCode
from kwire.protocol.metadata_version import is_controller_unregistration_supported

if TYPE_CHECKING:
    from kwire.messages.unregister_controller_request import UnregisterControllerRequest


def unregister_controller(
    request: UnregisterControllerRequest, context: ControllerRequestContext
) -> ControllerResult:
    """Remove the registration of a controller other than the active one. Raises ApiError."""
    controller_id = request.controller_id
    # The active controller would register again at once, as it still runs.
    if controller_id == context.settings.node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
        )
    # Nodes at a lower level cannot read the record.
    if not is_controller_unregistration_supported(context.level):
        why = "The current MetadataVersion is too old to support controller unregistration."
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, why)
    if controller_id not in context.image.controllers:
        why = f"Controller ID {controller_id} is not currently registered."
        raise ApiError(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, why)
    return ControllerResult(
        [UnregisterControllerRecord(controller_id=controller_id)], UnregisterControllerResponse()
    )


def _refuse(request: UnregisterControllerRequest, refusal: Refusal) -> Message:
    return UnregisterControllerResponse(error_code=refusal.error, error_message=refusal.message)


def _resources(request: UnregisterControllerRequest) -> Iterator[Resource]:
    yield "CONTROLLER", str(request.controller_id)


API: Final = AdminApi(
    key=ApiKey.UNREGISTER_CONTROLLER,
    operation="unregisterController",
    decide=unregister_controller,
    refuse=_refuse,
    cluster_operation="ALTER",
    resources=_resources,
)
