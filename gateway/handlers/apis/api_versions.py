"""ApiVersions (key 18): returns the served APIs with their versions, and the features.

It is the first request of most connections, so its lists are made once for the same features and
APIs. From version 5 on a client that knows the cluster and the node that it connects to names them,
and a broker that is another one has it bootstrap again (KIP-1242). Source: ``KafkaApis``,
``ApiVersionsRequest.isValid``.
"""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gateway.controller.features import SUPPORTED
from kwire.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.protocol.features import KRAFT_VERSION

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Handler
    from kwire.messages.api_versions_request import ApiVersionsRequest

API_KEY: Final = ApiKey.API_VERSIONS
VERSIONS: Final = range(6)

#: ``ApiVersionsRequest.NodeId`` of a client that does not know which node it connects to.
_NO_NODE: Final = -1
# The pattern of a client's software name and version (KIP-511, ApiVersionsRequest.isValid).
# librdkafka falls back to version 0 if it is refused.
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of KIP-584 with the levels that this server supports, and the finalized level (0:
    disabled).
    """

    name: str
    min_version: int
    max_version: int
    finalized: int = 0


#: Without a quorum there is no feature to upgrade: this server only reads a log from disk.
FEATURES: Final[tuple[Feature, ...]] = ()
#: The features of this quorum's nodes: those of Kafka 4.x that their controller implements.
OWN_FEATURES: Final = tuple(Feature(name, low, high) for name, (low, high) in SUPPORTED.items())


def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Return the APIs and features; INVALID_REQUEST for a software name or version that KIP-511
    does not allow, and for a cluster without a node or the reverse; REBOOTSTRAP_REQUIRED for those
    of another broker.
    """
    if context.version >= 3 and not _is_valid(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if request.cluster_id is not None and _is_misrouted(request, context):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    understood, quorum = context.version >= 4, context.gateway.quorum
    if quorum is None:
        return _cached_response(understood)
    raft, image = context.gateway.raft, quorum.image
    levels = tuple(image.features.items())
    if raft is None:
        features = _observed_features(levels)
    else:
        features = _features((*levels, (KRAFT_VERSION, raft.kraft_version)))
    supported, finalized = _feature_lists(features, understood)
    return ApiVersionsResponse(
        api_keys=_api_keys(context.apis),
        supported_features=supported,
        finalized_features=finalized,
        finalized_features_epoch=image.next_offset - 1,
    )


def _is_misrouted(request: ApiVersionsRequest, context: Context) -> bool:
    """Whether the client expects another cluster or node. As in Kafka, controllers do not look, and
    brokers not before the client has authenticated. A cluster whose id is not known yet is no
    other one.
    """
    if context.apis is not None or (context.sasl is not None and not context.sasl.is_open):
        return False
    known = context.gateway.partition.cluster_id
    return request.node_id != context.gateway.node_id or known not in ("", request.cluster_id)


def unsupported_version_response(apis: Mapping[int, Handler] | None = None) -> ApiVersionsResponse:
    """Return the response to a version that is too new. It is encoded as version 0, which every
    client reads, so that it retries with a version of the list (KIP-511).

    Only the header of such a request is decoded: the form of its body is unknown.
    """
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_api_keys(apis))


def make_response(
    features: Sequence[Feature],
    *,
    minimum_zero_understood: bool,
    apis: Mapping[int, Handler] | None = None,
) -> ApiVersionsResponse:
    """Return the response with these features and APIs (None: those for clients).

    Java clients up to 3.8 throw on a feature whose minimum is 0. Clients that accept it send
    version 4, and below that such a feature is left out (KAFKA-17011).
    """
    supported, finalized = _feature_lists(tuple(features), minimum_zero_understood)
    return ApiVersionsResponse(
        api_keys=_api_keys(apis), supported_features=supported, finalized_features=finalized
    )


@functools.lru_cache(maxsize=64)
def _feature_lists(
    features: tuple[Feature, ...], minimum_zero_understood: bool
) -> tuple[list[SupportedFeatureKey], list[FinalizedFeatureKey]]:
    """Return the lists of a response. Responses share them, so they must not be changed."""
    shown = [feature for feature in features if feature.min_version > 0 or minimum_zero_understood]
    supported = [
        SupportedFeatureKey(name=f.name, min_version=f.min_version, max_version=f.max_version)
        for f in shown
    ]
    finalized = [
        FinalizedFeatureKey(
            name=f.name, max_version_level=f.finalized, min_version_level=f.finalized
        )
        for f in features
        if f.finalized > 0
    ]
    return supported, finalized


def _is_valid(request: ApiVersionsRequest) -> bool:
    return (request.cluster_id is None) is (request.node_id == _NO_NODE) and all(
        _SOFTWARE.fullmatch(text)
        for text in (request.client_software_name, request.client_software_version)
    )


#: (feature, level) of each that is finalized.
_Levels = tuple[tuple[str, int], ...]


@functools.lru_cache(maxsize=16)
def _features(levels: _Levels) -> tuple[Feature, ...]:
    """Return the features that nodes of this quorum support, with the levels that its log has
    finalized.
    """
    finalized = dict(levels)
    return tuple(
        replace(feature, finalized=finalized.get(feature.name, 0)) for feature in OWN_FEATURES
    )


@functools.lru_cache(maxsize=16)
def _observed_features(levels: _Levels) -> tuple[Feature, ...]:
    """Return the features of the observed cluster, with the levels that it has finalized.

    Each is shown as supported at least up to its level: a later release than this one may have
    finalized it. kraft.version is left out, as the image does not hold control records.
    """
    finalized = dict(levels)
    known = {feature.name: feature for feature in OWN_FEATURES if feature.name != KRAFT_VERSION}
    return tuple(
        _up_to(known.get(name, Feature(name, 0, 0)), finalized.get(name, 0))
        for name in sorted({*known, *finalized})
    )


def _up_to(feature: Feature, finalized: int) -> Feature:
    return replace(feature, max_version=max(feature.max_version, finalized), finalized=finalized)


@functools.cache
def _cached_response(minimum_zero_understood: bool) -> ApiVersionsResponse:
    return make_response(FEATURES, minimum_zero_understood=minimum_zero_understood)


def _api_keys(apis: Mapping[int, Handler] | None) -> list[ApiVersion]:
    """Return the list of a response, made once for each table of handlers (None: for clients)."""
    from gateway.handlers.table import handlers  # the table imports this module

    table = handlers() if apis is None else apis
    for known, keys in _KEYS:
        if known is table:
            return keys
    keys = [
        ApiVersion(
            api_key=handler.api_key,
            min_version=handler.versions[0],
            max_version=handler.versions[-1],
        )
        for handler in table.values()
    ]
    _KEYS.append((table, keys))
    return keys


#: Tables of handlers with their lists. A server has two; the length is for tests, which make many.
_KEYS: Final[deque[tuple[Mapping[int, Handler], list[ApiVersion]]]] = deque(maxlen=4)
