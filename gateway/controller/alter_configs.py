"""IncrementalAlterConfigs and AlterConfigs: set, unset, extend configuration (``ConfigurationControlManager``).

A resource's changes are made all or not at all; each resource of a request fares on its own.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from gateway.controller.case import Case, Verdict
from gateway.controller.config_keys import ConfigType
from gateway.controller.config_records import MIN_ISR, clear_elr
from gateway.controller.errors import ApiError, Error
from gateway.controller.features import has_elr
from gateway.controller.resource_configs import KEYS, Resource, ResourceType, check_allowed, check_configs, check_exists
from kwire.message import Message
from kwire.messages.alter_configs_response import AlterConfigsResourceResponse as LegacyResult
from kwire.messages.alter_configs_response import AlterConfigsResponse
from kwire.messages.config_record import ConfigRecord
from kwire.messages.incremental_alter_configs_response import AlterConfigsResourceResponse, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from kwire.messages.alter_configs_request import AlterConfigsRequest
    from kwire.messages.incremental_alter_configs_request import AlterableConfig, IncrementalAlterConfigsRequest

#: Bytes of a value at most: a string of Kafka's schemas has a length of 16 bits.
_VALUE_BYTES_MAX: Final = 32767

#: Whose lists can be extended: of the other types Kafka's controller does not know which keys are lists.
_WITH_LISTS: Final = (ResourceType.TOPIC, ResourceType.BROKER)

#: Of one resource, what changes: name -> new value, None to unset it. In the order in which the records are written.
_Changes = dict[str, str | None]


class Operation(enum.IntEnum):
    """``AlterConfigOp.OpType``."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(request: IncrementalAlterConfigsRequest, case: Case) -> Verdict:
    """Change the keys named, and leave the others as they are (KIP-339)."""
    records, results = _alter(request.resources, _increments, AlterConfigsResourceResponse, case)
    return Verdict(records, IncrementalAlterConfigsResponse(responses=results))


def alter_configs(request: AlterConfigsRequest, case: Case) -> Verdict:
    """Set the keys named, and unset every other one of the resource: what KIP-339 was made to replace."""
    records, results = _alter(request.resources, _replacement, LegacyResult, case)
    return Verdict(records, AlterConfigsResponse(responses=results))


def _alter(
    resources: Iterable[Any],
    changes_of: Callable[[Resource, Any, Mapping[str, str]], _Changes],
    result_type: Callable[..., Any],
    case: Case,
) -> tuple[list[Message], list[Any]]:
    asked = [(Resource(one.resource_type, one.resource_name), one.configs) for one in resources]
    count = Counter(resource for resource, _ in asked)
    records: list[Message] = []
    results = []
    for resource, configs in asked:
        result = result_type(resource_type=resource.type, resource_name=resource.name, error_message=None)
        try:
            if count[resource] > 1:
                raise ApiError(Error.INVALID_REQUEST, "Each resource must appear at most once.")
            records += _alter_one(resource, configs, changes_of, case)
        except ApiError as refusal:
            result.error_code, result.error_message = refusal.error, refusal.message
        results.append(result)
    return [*records, *clear_elr(records, case.image)], results


def _alter_one(
    resource: Resource, configs: Any, changes_of: Callable[[Resource, Any, Mapping[str, str]], _Changes], case: Case
) -> list[ConfigRecord]:
    if resource.type not in KEYS:
        raise ApiError(Error.INVALID_REQUEST, f"Configurations of resource type {resource.type} cannot be changed here.")
    check_allowed(resource, case)
    if len({config.name for config in configs}) < len(configs):
        raise ApiError(Error.INVALID_REQUEST, "Error due to duplicate config keys")
    before = case.image.configs.get(resource, {})
    changes = changes_of(resource, configs, before)
    after = {name: value for name, value in {**before, **changes}.items() if value is not None}
    _check_sizes(changes)
    _check_min_isr(resource, changes, case)
    check_configs(resource, after)
    check_exists(resource, case)
    return [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        for name, value in changes.items()
    ]


def _increments(resource: Resource, configs: Iterable[AlterableConfig], before: Mapping[str, str]) -> _Changes:
    unset = [config.name for config in configs if config.value is None and config.config_operation != Operation.DELETE]
    if unset:
        raise ApiError(Error.INVALID_REQUEST, f"Null value not supported for : {', '.join(unset)}")
    changes = {config.name: _incremented(resource, config, before.get(config.name)) for config in configs}
    return _worth_a_record(resource, changes, before)


def _replacement(resource: Resource, configs: Iterable[Any], before: Mapping[str, str]) -> _Changes:
    unset = [config.name for config in configs if config.value is None]
    if unset:
        raise ApiError(Error.INVALID_REQUEST, f"Null value not supported for : {', '.join(unset)}")
    given: _Changes = {config.name: config.value for config in configs}
    left_out: _Changes = dict.fromkeys(name for name in before if name not in given)
    return _worth_a_record(resource, given, before) | left_out


def _worth_a_record(resource: Resource, changes: _Changes, before: Mapping[str, str]) -> _Changes:
    if resource.type == ResourceType.BROKER:
        return changes  # the same value again tells a broker to read again what it names, such as a key store
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
            raise ApiError(Error.INVALID_REQUEST, f"Unknown operations type {unknown}")


def _listed(resource: Resource, config: AlterableConfig, operation: Operation, current: str | None) -> str:
    key = KEYS[resource.type].get(config.name) if resource.type in _WITH_LISTS else None
    if key is None or key.type is not ConfigType.LIST:
        raise ApiError(Error.INVALID_CONFIG, f"Can't {operation.name} to key {config.name} because its type is not LIST.")
    text = key.default if current is None else current
    parts = [part for part in (text or "").split(",") if part]
    for value in _split(config.value or ""):
        if operation is Operation.SUBTRACT:
            if value in parts:
                parts.remove(value)
        elif value not in parts:
            parts.append(value)
    return ",".join(parts)


def _split(text: str) -> list[str]:
    """As Java splits: without the empty parts at the end, but the empty text is one part."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if text == "" or parts != [""] else []


def _check_sizes(changes: _Changes) -> None:
    for name, value in changes.items():
        if value is not None and len(value.encode()) > _VALUE_BYTES_MAX:
            raise ApiError(
                Error.INVALID_CONFIG,
                f"The value of {name} would have {len(value.encode())} bytes, {_VALUE_BYTES_MAX} are the most.",
            )


def _check_min_isr(resource: Resource, changes: _Changes, case: Case) -> None:
    """KIP-966: with eligible leader replicas all brokers have one ``min.insync.replicas``, and there always is one."""
    if resource.type != ResourceType.BROKER or MIN_ISR not in changes or not has_elr(case.image):
        return
    if resource.name:
        raise ApiError(Error.INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
    if changes[MIN_ISR] is None:
        raise ApiError(Error.INVALID_CONFIG, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")
