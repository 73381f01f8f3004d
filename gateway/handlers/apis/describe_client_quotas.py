"""DescribeClientQuotas (key 48): returns the quotas in the log that match a filter (KIP-546).

They are those of this node's own cluster, or of the observed one, whose clients an observer does
not throttle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.apis.alter_client_quotas import CLIENT_ID, IP, USER
from gateway.controller.errors import ApiError
from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.catalog import cluster_image
from gateway.ports.streamed import respond
from kwire.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.handlers.context import Context
    from gateway.ports.streamed import Streamed
    from kwire.cluster.image import QuotaEntity
    from kwire.message import Message
    from kwire.messages.describe_client_quotas_request import (
        ComponentData,
        DescribeClientQuotasRequest,
    )

API_KEY: Final = ApiKey.DESCRIBE_CLIENT_QUOTAS
VERSIONS: Final = range(2)

#: Match types: an entity of this name, the default of the type, any of the type.
EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2
_NAMES: Final = {
    EXACT: "MATCH_TYPE_EXACT",
    DEFAULT: "MATCH_TYPE_DEFAULT",
    SPECIFIED: "MATCH_TYPE_SPECIFIED",
}


def handle(request: DescribeClientQuotasRequest, context: Context) -> Message | Streamed:
    """Return entities with their quotas.

    INVALID_REQUEST for a contradictory filter, UNSUPPORTED_VERSION for an unknown entity type.
    """
    if not may_on_cluster(context, Operation.DESCRIBE_CONFIGS):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    try:
        wanted = _wanted(request.components)
    except ApiError as refusal:
        return _failed(refusal.error, refusal.message)
    image = cluster_image(context)
    quotas = [] if image is None else list(image.quotas.items())
    entries = (
        _entry(*item) if _matches(dict(item[0]), wanted, strict=request.strict) else None
        for item in quotas
    )
    return respond(DescribeClientQuotasResponse(), "entries", entries, len(quotas))


def _failed(error: int, why: str | None) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error, error_message=why, entries=None)


def _wanted(components: Iterable[ComponentData]) -> dict[str, ComponentData]:
    """Return the filter of each type of entity. Raises ApiError."""
    wanted: dict[str, ComponentData] = {}
    for one in components:
        if not one.entity_type:
            raise _invalid("Invalid empty entity type.")
        if one.entity_type in wanted:
            raise _invalid(
                f"Entity type {one.entity_type} cannot appear more than once in the filter."
            )
        if one.entity_type not in (USER, CLIENT_ID, IP):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}"
            )
        if one.match_type not in _NAMES:
            raise _invalid(f"Unknown match type {one.match_type}")
        if one.match_type == EXACT and one.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if one.match_type != EXACT and one.match is not None:
            raise _invalid(
                f"Request specified {_NAMES[one.match_type]}, but also specified a match string."
            )
        wanted[one.entity_type] = one
    if IP in wanted and len(wanted) > 1:
        raise _invalid(
            "Invalid entity filter component combination. "
            "IP filter component should not be used with user or clientId filter component."
        )
    return wanted


def _matches(
    entity: Mapping[str, str | None], wanted: Mapping[str, ComponentData], *, strict: bool
) -> bool:
    """Whether the entity has all parts of the filter, and, if ``strict``, no other."""
    if strict and len(entity) != len(wanted):
        return False
    return all(
        kind in entity and (one.match_type == SPECIFIED or entity[kind] == one.match)
        for kind, one in wanted.items()
    )


def _entry(entity: QuotaEntity, quotas: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=value) for key, value in quotas.items()],
    )


def _invalid(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, why)
