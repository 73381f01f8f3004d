"""ControllerRegistration: a node of the quorum tells where it can be reached, and what it supports (KIP-919)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.listeners import checked_listeners
from gateway.controller.records import CONTROLLER_REGISTRATION_LEVEL
from kwire.messages.controller_registration_response import ControllerRegistrationResponse
from kwire.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)

if TYPE_CHECKING:
    from kwire.messages.controller_registration_request import ControllerRegistrationRequest


def register_controller(request: ControllerRegistrationRequest, case: Case) -> Verdict:
    """The newest registration of an id is the one that counts. Raises ApiError."""
    if not case.may_on_cluster("CLUSTER_ACTION"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    if case.level < CONTROLLER_REGISTRATION_LEVEL:
        raise ApiError(Error.UNSUPPORTED_VERSION, "The current MetadataVersion is too old to support controller registrations.")
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
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
    return Verdict([record], ControllerRegistrationResponse(error_message=None))
