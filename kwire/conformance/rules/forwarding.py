"""Rules of Envelope, in which a broker forwards a client's request to the controller (KIP-590).

The requests inside change nothing: they are the small ones of ``requests``, or name a topic that is
not there.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, Final

from kwire.conformance.probe import Probe, api_of
from kwire.conformance.quorum import require_follower, require_leader
from kwire.conformance.requests import CHANGING, NO_NAME, small_request
from kwire.conformance.rule import BROKER, CONTROLLER, Family, Rule
from kwire.conformance.rules.schema import error_codes
from kwire.conformance.session import codec_versions
from kwire.errors import DecodeError
from kwire.header import (
    decode_response_header,
    encode_request_header,
    request_header_version,
    response_header_version,
)
from kwire.message import Message
from kwire.messages import alter_configs_request as old
from kwire.messages import incremental_alter_configs_request as new
from kwire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kwire.messages.alter_configs_request import AlterConfigsRequest
from kwire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.default_principal_data import DefaultPrincipalData
from kwire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.envelope_request import EnvelopeRequest
from kwire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from kwire.messages.request_header import RequestHeader
from kwire.protocol import ApiKey, ConfigResourceType, ErrorCode
from kwire.registry import response_type

_APIS: Final = (ApiKey.ENVELOPE, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM)
_SINCE: Final = "2.8"

FAMILY: Final = Family(
    "forwarding", "Envelope and forwarding", roles=CONTROLLER, apis=_APIS, since=_SINCE
)

_TEXT: Final = "KIP-590"
_HANDLING: Final = "EnvelopeRequest Handling"
_NUMBER: Final = 4711
_ADDRESS: Final = bytes((127, 0, 0, 1))
_ADDRESS_6: Final = bytes(15) + b"\x01"
_PRINCIPAL: Final = struct.pack(">h", 0) + DefaultPrincipalData(type="User", name="c").encode(0)


def _inner(request: Message, version: int) -> bytes:
    header = encode_request_header(api_of(request), version, _NUMBER, "kwire-conform-inner")
    return header + request.encode(version)


def _no_topic(version: int = 6) -> bytes:
    """DeleteTopics of a topic that is not there."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=NO_NAME)], timeout_ms=1000)
    return _inner(request, version)


def _send(probe: Probe, data: bytes, **fields: Any) -> Any:
    """Send ``data`` in an Envelope to the active controller, and return the answer."""
    require_leader(probe)
    values = {"request_principal": _PRINCIPAL, "client_host_address": _ADDRESS, **fields}
    return probe.call(EnvelopeRequest(request_data=data, **values), 0)


def _opened(probe: Probe, answer: Any, api: ApiKey, version: int) -> Any:
    """Return the response in an Envelope. Fails the rule unless it is one to the request inside."""
    probe.expect_error(answer.error_code, ErrorCode.NONE, where="the Envelope")
    data = bytes(answer.response_data or b"")
    try:
        header, start = decode_response_header(api, version, data)
        body = response_type(api).decode(data[start:], version)
    except DecodeError as error:
        probe.fail(f"what the Envelope holds is no answer to {api.title} v{version}: {error}")
    probe.expect(
        header.correlation_id == _NUMBER,
        f"the answer inside has correlation id {header.correlation_id}, the request inside had "
        f"{_NUMBER}",
    )
    return body


@FAMILY.rule("inner-answer", source=_TEXT, section="New Envelope RPC")
def inner_answer(probe: Probe) -> None:
    """The answer to an Envelope holds the answer to the request inside, with the correlation id of
    that request.
    """
    version = probe.need(ApiKey.DELETE_TOPICS, 6)
    _opened(probe, _send(probe, _no_topic()), ApiKey.DELETE_TOPICS, version)


@FAMILY.rule("inner-error", source=_TEXT, section=_HANDLING)
def inner_error(probe: Probe) -> None:
    """An error of the request inside stays inside: the Envelope has none."""
    version = probe.need(ApiKey.DELETE_TOPICS, 6)
    body = _opened(probe, _send(probe, _no_topic()), ApiKey.DELETE_TOPICS, version)
    # An authorizer does not know the principal of the request inside.
    allowed = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    probe.expect_error(body.responses[0].error_code, *allowed)


@FAMILY.rule("inner-header", source=_TEXT, section="New Envelope RPC")
def inner_header(probe: Probe) -> None:
    """The answer inside has the header of its own version: no tagged fields where that version is
    not flexible.
    """
    version = probe.need(ApiKey.DELETE_TOPICS, 1, 2, 3)
    data = _inner(DeleteTopicsRequest(topic_names=[NO_NAME], timeout_ms=1000), version)
    _opened(probe, _send(probe, data), ApiKey.DELETE_TOPICS, version)


@FAMILY.rule("address-of-16-bytes", source="EnvelopeUtils", section="parseForwardedClientAddress")
def address_of_16_bytes(probe: Probe) -> None:
    """A client address of 16 bytes, IPv6, is taken."""
    version = probe.need(ApiKey.DELETE_TOPICS, 6)
    answer = _send(probe, _no_topic(), client_host_address=_ADDRESS_6)
    _opened(probe, answer, ApiKey.DELETE_TOPICS, version)


def _refused(probe: Probe, error: ErrorCode, data: bytes, **fields: Any) -> None:
    answer = _send(probe, data, **fields)
    probe.expect_error(answer.error_code, error, where="the Envelope")
    probe.expect(not answer.response_data, "the refused Envelope holds an answer")


@FAMILY.rule("address-of-3-bytes", source="EnvelopeUtils", section="parseForwardedClientAddress")
def address_of_3_bytes(probe: Probe) -> None:
    """A client address that is neither of 4 nor of 16 bytes is refused with INVALID_REQUEST."""
    _refused(probe, ErrorCode.INVALID_REQUEST, _no_topic(), client_host_address=_ADDRESS[:3])


@FAMILY.rule("principal-is-rubbish", source="EnvelopeUtils", section="parseForwardedPrincipal")
def principal_is_rubbish(probe: Probe) -> None:
    """A principal that cannot be read is refused with PRINCIPAL_DESERIALIZATION_FAILURE."""
    error = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    _refused(probe, error, _no_topic(), request_principal=b"\xff" * 9)


@FAMILY.rule("principal-is-empty", source="EnvelopeUtils", section="parseForwardedPrincipal")
def principal_is_empty(probe: Probe) -> None:
    """An empty principal is refused with PRINCIPAL_DESERIALIZATION_FAILURE."""
    error = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    _refused(probe, error, _no_topic(), request_principal=b"")


@FAMILY.rule("not-forwardable", source="EnvelopeUtils", section="parseForwardedRequest")
def not_forwardable(probe: Probe) -> None:
    """A request that brokers answer themselves is refused with INVALID_REQUEST."""
    request = ApiVersionsRequest(client_software_name="kwire", client_software_version="1")
    _refused(probe, ErrorCode.INVALID_REQUEST, _inner(request, 3))


@FAMILY.rule("envelope-inside", source="EnvelopeUtils", section="parseForwardedRequest")
def envelope_inside(probe: Probe) -> None:
    """An Envelope in an Envelope is refused with INVALID_REQUEST."""
    inner = EnvelopeRequest(
        request_data=_no_topic(), request_principal=_PRINCIPAL, client_host_address=_ADDRESS
    )
    _refused(probe, ErrorCode.INVALID_REQUEST, _inner(inner, 0))


@FAMILY.rule("version-inside", source="EnvelopeUtils", section="parseForwardedRequest")
def version_inside(probe: Probe) -> None:
    """A request inside with an unknown version gets UNSUPPORTED_VERSION."""
    header = RequestHeader(
        request_api_key=ApiKey.DELETE_TOPICS,
        request_api_version=99,
        correlation_id=_NUMBER,
        client_id="kwire",
    )
    data = header.encode(request_header_version(ApiKey.DELETE_TOPICS, 6)) + bytes(20)
    _refused(probe, ErrorCode.UNSUPPORTED_VERSION, data)


@FAMILY.rule("not-controller", source=_TEXT, section=_HANDLING)
def not_controller(probe: Probe) -> None:
    """A controller that is not the active one refuses the Envelope of a change with
    NOT_CONTROLLER, in the Envelope.
    """
    require_follower(probe)
    # Not DeleteTopics: Kafka looks for the topic before it looks for the active controller.
    inner = _inner(_NAMED[ApiKey.CREATE_TOPICS], probe.newest(ApiKey.CREATE_TOPICS))
    request = EnvelopeRequest(
        request_data=inner, request_principal=_PRINCIPAL, client_host_address=_ADDRESS
    )
    answer = probe.call(request, 0)
    probe.expect_error(answer.error_code, ErrorCode.NOT_CONTROLLER, where="the Envelope")


# --- each API that is forwarded -------------------------------------------------------------------


def in_envelope(api: ApiKey, probe: Probe) -> None:
    """Send the small request of an API in an Envelope."""
    version = probe.newest(api)
    answer = _send(probe, _inner(small_request(api, version), version))
    body = _opened(probe, answer, api, version)
    size = 4 + response_header_version(api, version)
    probe.expect(
        len(answer.response_data) == size + len(body.encode(version)),
        f"the answer inside has {len(answer.response_data)} bytes, not "
        f"{size + len(body.encode(version))}",
    )


def by_broker(api: ApiKey, probe: Probe) -> None:
    """Send a request that changes nothing, and has an error of its own, to a broker."""
    version = probe.newest(api)
    request = _NAMED[api] if api in _NAMED else small_request(api, version)
    codes = dict(error_codes(probe.call(request, version), version))
    probe.expect(bool(codes), "the answer has no error code at all")
    for place, code in codes.items():
        probe.expect(code != ErrorCode.NOT_CONTROLLER, f"{place} is NOT_CONTROLLER")


def _config(form: Any, resource: Any, config: Any) -> Any:
    """A configuration of a topic that is not there."""
    one = config(name="retention.ms", value="1")
    topic = int(ConfigResourceType.TOPIC)
    return form(
        resources=[resource(resource_type=topic, resource_name=NO_NAME, configs=[one])],
        validate_only=True,
    )


#: Requests of APIs whose answers have errors for the things that were named alone.
_NAMED: Final[dict[ApiKey, Message]] = {
    ApiKey.CREATE_TOPICS: CreateTopicsRequest(
        topics=[CreatableTopic(name=NO_NAME, num_partitions=1, replication_factor=1)],
        timeout_ms=1000,
        validate_only=True,
    ),
    ApiKey.DELETE_TOPICS: DeleteTopicsRequest(
        topics=[DeleteTopicState(name=NO_NAME)], timeout_ms=1000
    ),
    ApiKey.CREATE_PARTITIONS: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=NO_NAME, count=2, assignments=None)],
        timeout_ms=1000,
        validate_only=True,
    ),
    ApiKey.ALTER_CONFIGS: _config(
        AlterConfigsRequest, old.AlterConfigsResource, old.AlterableConfig
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _config(
        IncrementalAlterConfigsRequest, new.AlterConfigsResource, new.AlterableConfig
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=NO_NAME, mechanism=1)]
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: AlterClientQuotasRequest(
        entries=[
            EntryData(
                entity=[EntityData(entity_type="user", entity_name=NO_NAME)],
                ops=[OpData(key="producer_byte_rate", value=1.0)],
            )
        ],
        validate_only=True,
    ),
    ApiKey.DELETE_ACLS: DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter=NO_NAME,
                pattern_type_filter=3,
                principal_filter=f"User:{NO_NAME}",
                operation=1,
                permission_type=1,
            )
        ]
    ),
}
#: A valid creation would change the cluster; answers to others have no error for it.
_NOT_BY_BROKER: Final = frozenset({ApiKey.CREATE_ACLS})


def _add_all() -> None:
    for api in ApiKey:
        if not api.forwardable or not codec_versions(api) or api in CHANGING:
            continue
        section = "Change AlterConfig Request Routing"
        if "controller" in api.listeners:
            FAMILY.add(
                Rule(
                    id=f"forwarding.{api.title}.in-envelope",
                    says=f"The active controller answers a small {api.title} request in an "
                    "Envelope in the form of that request's version.",
                    check=functools.partial(in_envelope, api),
                    source=_TEXT,
                    section=section,
                    since=_SINCE,
                    roles=CONTROLLER,
                    apis=(api, *_APIS),
                )
            )
        if "broker" in api.listeners and api not in _NOT_BY_BROKER:
            FAMILY.add(
                Rule(
                    id=f"forwarding.{api.title}.by-broker",
                    says=f"A broker does not refuse a {api.title} request with NOT_CONTROLLER: it "
                    "forwards it.",
                    check=functools.partial(by_broker, api),
                    source=_TEXT,
                    section=section,
                    since="3.3",
                    roles=BROKER,
                    apis=(api,),
                )
            )


_add_all()
