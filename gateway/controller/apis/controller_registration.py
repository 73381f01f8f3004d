"""ControllerRegistration: a node of the quorum registers its listeners and the features that it
supports (KIP-919).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal
from gateway.controller.errors import ApiError
from gateway.controller.listeners import check_id, checked_listeners
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.controller_registration_response import ControllerRegistrationResponse
from kwire.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.protocol.metadata_version import is_controller_registration_supported

if TYPE_CHECKING:
    from kwire.messages.controller_registration_request import ControllerRegistrationRequest


def register_controller(
    request: ControllerRegistrationRequest, context: ControllerRequestContext
) -> ControllerResult:
    """Return the registration, which replaces an earlier one with the same id. Raises ApiError."""
    # At a lower level the record has no place in the log, and controllers do not register
    # (KIP-919).
    if not is_controller_registration_supported(context.level):
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    check_id(request.controller_id)
    # Without a look at the old one: a controller has no epoch, and the newest registration is
    # right.
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,  # Kafka 4 has no migration from ZooKeeper (KIP-866)
        end_points=[
            ControllerEndpoint(
                name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
            )
            for one in checked_listeners(request.listeners)
        ],
        features=[
            ControllerFeature(
                name=one.name,
                min_supported_version=one.min_supported_version,
                max_supported_version=one.max_supported_version,
            )
            for one in request.features
        ],
    )
    return ControllerResult([record], ControllerRegistrationResponse(error_message=None))


def _refuse(request: ControllerRegistrationRequest, refusal: Refusal) -> Message:
    return ControllerRegistrationResponse(error_code=refusal.error, error_message=refusal.message)


API: Final = AdminApi(
    key=ApiKey.CONTROLLER_REGISTRATION,
    operation="registerController",
    decide=register_controller,
    refuse=_refuse,
    cluster_operation="CLUSTER_ACTION",
)
