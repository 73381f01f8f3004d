"""Changes configurations of resources, for IncrementalAlterConfigs and AlterConfigs.

The changes of one resource are made as a whole or not at all; each resource of a request has its
own result. The keys and their limits are in ``configs``. Follows ``ConfigurationControlManager``.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from gateway.base.slices import Slices
from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision
from gateway.controller.admin_api import Resource as NamedResource
from gateway.controller.configs.config_def import ConfigType
from gateway.controller.configs.config_records import MIN_ISR, clear_elr
from gateway.controller.configs.resource_configs import (
    KEYS,
    Resource,
    check_allowed,
    check_configs,
    check_exists,
)
from gateway.controller.errors import ApiError
from gateway.controller.features import has_elr
from gateway.controller.records import check_count
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.ports.streamed import Streamed, respond
from kwire.message import Message
from kwire.messages.config_record import ConfigRecord
from kwire.protocol import ApiKey, ConfigResourceType, ErrorCode

if TYPE_CHECKING:
    from kwire.messages.incremental_alter_configs_request import AlterableConfig

_TYPE_NAMES: Final = {int(one): one.name for one in ConfigResourceType}
#: Bytes of a value at most: an APPEND makes a value that no request could hold, and the length of
#: a string in a ConfigRecord has 16 bits.
_VALUE_BYTES_MAX: Final = 32767

#: The resource types whose lists can be extended. ``KafkaConfigSchema.isSplittable`` knows the key
#: types of these only, so APPEND and SUBTRACT fail for all others.
_WITH_LISTS: Final = (ConfigResourceType.TOPIC, ConfigResourceType.BROKER)

#: The changes of one resource in the order of the records: name -> new value, None to unset it.
_Changes = dict[str, str | None]
#: :func:`increments` or :func:`replacement`: turns the entries of a resource into changes, in
#: slices, given the keys that are set now.
_ChangesOf = Callable[[Resource, Any, Mapping[str, str]], Slices[_Changes]]


class Operation(enum.IntEnum):
    """``AlterConfigOp.OpType``."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def config_api(
    *,
    key: ApiKey,
    operation: str,
    changes_of: _ChangesOf,
    response: Callable[..., Message],
    result: Callable[..., Any],
) -> AdminApi:
    """Return the descriptor of an API that changes configurations by ``changes_of``.

    ``response`` has one ``result`` for each resource of the request.
    """

    def decide(request: Any, context: ControllerRequestContext) -> SlicedDecision:
        records, results = yield from alter_configs(request.resources, changes_of, result, context)
        return ControllerResult(records, response(responses=results))

    def refuse(request: Any, refusal: Refusal) -> Message | Streamed:
        responses = (
            result(
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                error_code=refusal.error,
                error_message=refusal.message,
            )
            for one in request.resources
        )
        return respond(response(), "responses", responses, len(request.resources))

    return AdminApi(
        key=key, operation=operation, decide=decide, refuse=refuse, resources=named_resources
    )


def alter_configs(
    resources: Iterable[Any],
    changes_of: _ChangesOf,
    result_type: Callable[..., Any],
    context: ControllerRequestContext,
) -> Slices[tuple[list[Message], list[Any]]]:
    """Return the records that change ``resources``, and a ``result_type`` for each of them. Raises
    ApiError for more records than one request may make.
    """
    # All of them first: whether a resource is there twice is not known before the last one.
    asked: list[tuple[Resource, Any]] = []
    count: Counter[Resource] = Counter()
    for one in resources:
        asked.append((Resource(one.resource_type, one.resource_name), one.configs))
        count[asked[-1][0]] += 1
        yield
    records: list[Message] = []
    results = []
    for resource, configs in asked:
        result = result_type(
            resource_type=resource.type, resource_name=resource.name, error_message=None
        )
        try:
            if count[resource] > 1:
                # None of them is carried out: their order would decide (ControllerApis).
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            made = yield from _alter_one(resource, configs, changes_of, context)
        # The other resources of the request are carried out.
        except ApiError as refusal:
            result.error_code, result.error_message = refusal.error, refusal.message
        else:
            records += made
            check_count(records)
        results.append(result)
        yield
    return [*records, *clear_elr(records, context.image)], results


def _alter_one(
    resource: Resource,
    configs: Any,
    changes_of: _ChangesOf,
    context: ControllerRequestContext,
) -> Slices[list[ConfigRecord]]:
    # Loggers are changed by the broker itself, and never reach the controller in Kafka.
    if resource.type not in KEYS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Configurations of resource type {resource.type} cannot be changed here.",
        )
    # Before the keys are looked at: their faults would tell what the requester may not see.
    check_allowed(resource, context)
    if len({config.name for config in configs}) < len(configs):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    before = context.image.configs.get(resource, {})
    # Against the proposals and not the committed image, so that two requests in a row add up.
    changes = yield from changes_of(resource, configs, before)
    after = dict(before)
    for name, value in changes.items():
        if value is None:
            after.pop(name, None)
        else:
            # Refused here: the record could not be encoded, and ``encode`` has no key to name.
            _check_size(name, value)
            after[name] = value
        yield
    _check_min_isr(resource, changes, context)
    # The whole configuration after the change is checked, not the changed keys: keys limit one
    # another. Existence comes last, as in ConfigurationControlManager.validateAlterConfig.
    yield from check_configs(resource, after)
    check_exists(resource, context)
    return [
        ConfigRecord(
            resource_type=resource.type, resource_name=resource.name, name=name, value=value
        )
        for name, value in changes.items()
    ]


def increments(
    resource: Resource, configs: Iterable[AlterableConfig], before: Mapping[str, str]
) -> Slices[_Changes]:
    """Change the keys of the request, and keep all others (KIP-339). Raises ApiError."""
    # Null stands for the removal of a key, which has an operation of its own.
    unset = [
        config.name
        for config in configs
        if config.value is None and config.config_operation != Operation.DELETE
    ]
    if unset:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(unset)}"
        )
    changes: _Changes = {}
    for config in configs:
        changes[config.name] = _incremented(resource, config, before.get(config.name))
        yield
    return _worth_a_record(resource, changes, before)


def replacement(
    resource: Resource, configs: Iterable[Any], before: Mapping[str, str]
) -> Slices[_Changes]:
    """Set the keys of the request, and unset all others. Raises ApiError.

    A client that changes one key must read and send all others, which loses the change of another
    client in between: KIP-339 replaced this form.
    """
    unset = [config.name for config in configs if config.value is None]
    if unset:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(unset)}"
        )
    yield
    given: _Changes = {config.name: config.value for config in configs}
    # Behind the keys that are set, as ``legacyAlterConfigResource`` orders its records.
    left_out: _Changes = dict.fromkeys(name for name in before if name not in given)
    return _worth_a_record(resource, given, before) | left_out


def _worth_a_record(resource: Resource, changes: _Changes, before: Mapping[str, str]) -> _Changes:
    if resource.type == ConfigResourceType.BROKER:
        # A record with the same value makes the broker reload the file that the value names, such
        # as a key store (KAFKA-14136).
        return changes
    # A key that is unset already needs no record either: ``get`` gives None for it.
    return {name: value for name, value in changes.items() if value != before.get(name)}


def _incremented(resource: Resource, config: AlterableConfig, current: str | None) -> str | None:
    match config.config_operation:
        case Operation.SET:
            return config.value
        case Operation.DELETE:
            return None
        case Operation.APPEND | Operation.SUBTRACT as operation:
            return _listed(resource, config, Operation(operation), current)
        case unknown:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown}")


def _listed(
    resource: Resource, config: AlterableConfig, operation: Operation, current: str | None
) -> str:
    key = KEYS[resource.type].get(config.name) if resource.type in _WITH_LISTS else None
    if key is None or key.type is not ConfigType.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {config.name} because its type is not LIST.",
        )
    # A key that is not set is extended from its default, and has a record of its own from then on
    # (ConfigurationControlManager.getParts).
    text = key.default if current is None else current
    parts = [part for part in (text or "").split(",") if part]
    change = subtracted if operation is Operation.SUBTRACT else appended
    return ",".join(change(parts, _split(config.value or "")))


def appended(parts: Iterable[str], values: Iterable[str]) -> list[str]:
    """Return ``parts`` and those of ``values`` that are not among them.

    Each once only: an APPEND that a client repeats changes nothing.
    """
    known = list(parts)
    there = set(known)
    return known + [value for value in dict.fromkeys(values) if value not in there]


def subtracted(parts: Iterable[str], values: Iterable[str]) -> list[str]:
    """Return ``parts`` without the first one that equals each of ``values`` (``List.remove``). A
    value that is not in the list is no error.
    """
    left = Counter(values)
    kept = []
    for part in parts:
        if left[part]:
            left[part] -= 1
        else:
            kept.append(part)
    return kept


def _split(text: str) -> list[str]:
    """Split ``text`` at commas as Java's ``String.split`` does.

    Empty parts at the end are dropped, except that the empty text is one empty part.
    """
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if text == "" or parts != [""] else []


def _check_size(name: str, value: str) -> None:
    # In bytes of UTF-8, as the length in the record is counted.
    if len(value.encode()) > _VALUE_BYTES_MAX:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"The value of {name} would have {len(value.encode())} bytes, "
            f"{_VALUE_BYTES_MAX} are the most.",
        )


def _check_min_isr(
    resource: Resource, changes: _Changes, context: ControllerRequestContext
) -> None:
    """Keep one ``min.insync.replicas`` for all brokers while the cluster has eligible leader
    replicas (KIP-966).

    The controller decides with that value whether a replica is eligible, so it must not depend on
    the broker that leads. Raises ApiError.
    """
    if (
        resource.type != ConfigResourceType.BROKER
        or MIN_ISR not in changes
        or not has_elr(context.image)
    ):
        return
    # The value of one broker would make two controllers decide differently.
    if resource.name:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.",
        )
    # Without it the value in each node's own file would count.
    if changes[MIN_ISR] is None:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.",
        )


def named_resources(request: Any) -> Iterator[NamedResource]:
    """Yield the resources that ``request`` configures, as the audit topic names them."""
    for resource in request.resources:
        kind = _TYPE_NAMES.get(resource.resource_type, ConfigResourceType.UNKNOWN.name)
        yield kind, resource.resource_name or None
