"""AlterClientQuotas: limits the rates of users, clients and addresses
(``ClientQuotaControlManager``; KIP-546).
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from gateway.base.slices import Slices
from gateway.controller.admin_api import AdminApi, Refusal, Resource, SlicedDecision
from gateway.controller.errors import ApiError
from gateway.controller.records import check_count
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.ports.streamed import Streamed, respond
from kwire.cluster.image import QuotaEntity
from kwire.message import Message
from kwire.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)
from kwire.messages.client_quota_record import ClientQuotaRecord
from kwire.messages.client_quota_record import EntityData as RecordEntity
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from kwire.messages.alter_client_quotas_request import AlterClientQuotasRequest, OpData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

#: The largest fraction of a value that must be a whole number, as doubles are not exact.
_FRACTION_MAX: Final = 1e-6
#: For each key its largest value and its type; None where it need not be a whole number.
_Keys = Mapping[str, tuple[float, str] | None]
_LONG: Final = (float(2**63 - 1), "a LONG")
_USER_AND_CLIENT_KEYS: Final[_Keys] = MappingProxyType({
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": None,
    "controller_mutation_rate": None,
})  # fmt: skip
_IP_KEYS: Final[_Keys] = MappingProxyType(
    {"connection_creation_rate": (float(2**31 - 1), "an INT")}
)

#: The changes of one entity: key -> new value, None to unset it.
_Changes = dict[str, float | None]


def alter_client_quotas(
    request: AlterClientQuotasRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return the records, and one result for each entity.

    As in Kafka the second entry for an entity is refused: the first one is carried out, and the
    result of the entity has the error.
    """
    records: list[Message] = []
    # No ApiError is kept: its traceback has the frame that has this dictionary, a cycle.
    results: dict[QuotaEntity, EntryData] = {}
    for entry in request.entries:
        # Sorted, so that an entity is the same key whatever the order of its parts in the request.
        entity = tuple(sorted({one.entity_type: one.entity_name for one in entry.entity}.items()))
        try:
            if entity in results:
                raise _invalid(f"Ignoring duplicate entity {dict(entity)}")
            results[entity] = _result(entity, None)
            made = yield from _alter(entity, entry.ops, context)
        except ApiError as refusal:
            results[entity] = _result(entity, refusal)
        else:
            # After the whole entity was checked: its keys are set together or not at all.
            records += made
            check_count(records)
        yield
    return ControllerResult(records, AlterClientQuotasResponse(entries=list(results.values())))


def _alter(
    entity: QuotaEntity, ops: list[OpData], context: ControllerRequestContext
) -> Slices[list[ClientQuotaRecord]]:
    changes: _Changes = {op.key: None if op.remove else op.value for op in ops}
    # None of the values counts, as in ClientQuotaControlManager: their order would decide.
    if len(changes) < len(ops):
        raise _invalid(f"Duplicate quota key, not updating quota for this entity {dict(entity)}")
    keys = _keys_of(entity)
    before = context.image.quotas.get(entity, {})
    records = []
    for key, value in changes.items():
        if _is_change(key, value, keys, before):
            removes = value is None
            records.append(
                ClientQuotaRecord(
                    entity=_named(entity), key=key, value=value or 0.0, remove=removes
                )
            )
        yield
    return records


def _keys_of(entity: QuotaEntity) -> _Keys:
    """Return the keys that an entity may have. Raises ApiError for an invalid entity."""
    # An entity without parts would be the quota of all, which the defaults with a null name are
    # for.
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        # Null stands for the default of the type, and no client has an empty name.
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    given = dict(entity)
    # Users and clients have rates of bytes and requests, addresses have rates of new connections
    # (KIP-612): no entity can have both.
    if IP not in given:
        return _USER_AND_CLIENT_KEYS
    if len(given) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity should not be combined with User or "
            "ClientId"
        )
    address = given[IP]
    # Kafka resolves host names (InetAddress.getByName), which would block the event loop. None is
    # the default of all addresses.
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP; names of hosts are not looked up here.")
    return _IP_KEYS


def _is_address(text: str) -> bool:
    if text.startswith("[") and text.endswith("]"):  # IPv6 as in a URL, which Java accepts
        text = text[1:-1]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    # A scope's name is one of the machine that reads it: a broker without such an interface could
    # not apply the quota.
    scope = getattr(address, "scope_id", None)
    return scope is None or (scope.isascii() and scope.isdigit() and len(scope) < 10)


def _is_change(key: str, value: float | None, keys: _Keys, before: Mapping[str, float]) -> bool:
    """Whether a record is needed. Raises ApiError for a value that ``key`` cannot have."""
    if value is None:
        # The key is not checked: a quota that an older release allowed can still be removed.
        return key in before
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    # Kafka accepts NaN and infinity for a key of type DOUBLE. No rate can be compared with NaN.
    if not math.isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    # A rate of 0 would block the client. A quota is lifted by its removal.
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if (whole := keys[key]) is not None:
        most, type_name = whole
        if value > most:
            raise _invalid(f"Proposed value for {key} is too large for {type_name}.")
        if math.fmod(value, 1.0) > _FRACTION_MAX:
            raise _invalid(f"{key} cannot be a fractional value.")
    # Only a new value makes a record (``alterClientQuotaEntity``).
    return before.get(key) != value


def _named(entity: QuotaEntity) -> list[RecordEntity]:
    return [RecordEntity(entity_type=kind, entity_name=name) for kind, name in entity]


def _result(entity: QuotaEntity, refusal: ApiError | None) -> EntryData:
    return EntryData(
        error_code=ErrorCode.NONE if refusal is None else refusal.error,
        error_message=None if refusal is None else refusal.message,
        entity=_entity_data(entity),
    )


def _entity_data(entity: Iterable[tuple[str, str | None]]) -> list[EntityData]:
    return [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _refuse(request: AlterClientQuotasRequest, refusal: Refusal) -> Message | Streamed:
    entries = (
        EntryData(
            error_code=refusal.error,
            error_message=refusal.message,
            entity=[
                EntityData(entity_type=one.entity_type, entity_name=one.entity_name)
                for one in entry.entity
            ],
        )
        for entry in request.entries
    )
    size = sum(1 + len(entry.entity) for entry in request.entries)
    return respond(AlterClientQuotasResponse(), "entries", entries, size)


def _resources(request: AlterClientQuotasRequest) -> Iterator[Resource]:
    for entry in request.entries:
        for entity in entry.entity:
            yield entity.entity_type.upper().replace("-", "_"), entity.entity_name


API: Final = AdminApi(
    key=ApiKey.ALTER_CLIENT_QUOTAS,
    operation="alterClientQuotas",
    decide=alter_client_quotas,
    refuse=_refuse,
    cluster_operation="ALTER_CONFIGS",
    resources=_resources,
)
