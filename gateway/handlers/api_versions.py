"""ApiVersions (key 18): which APIs at which versions, and which features. First request of nearly every connection.

Answers are made once and used for every connection. Version 5, in which clients say whom they expect to talk to (KIP-1242), is
too new here as it is for Kafka 4.3: those who begin with it are told so and come again with 4.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gateway.controller.features import KRAFT_VERSION, SUPPORTED
from gateway.handlers.errors import ErrorCode
from kwire.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.handlers.table import Handler
    from kwire.messages.api_versions_request import ApiVersionsRequest

API_KEY: Final = 18
VERSIONS: Final = range(5)

# KIP-511: what a client may call itself (ApiVersionsRequest.isValid); librdkafka falls back to version 0 when refused.
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of KIP-584 with the levels this server supports, and the level finalised (0: not in use)."""

    name: str
    min_version: int
    max_version: int
    finalized: int = 0


#: A log read from disk upgrades no feature: this server has none of its own.
FEATURES: Final[tuple[Feature, ...]] = ()
#: What the nodes of our own quorum support: those of Kafka 4.x that their controller knows what to do with.
OWN_FEATURES: Final = tuple(Feature(name, low, high) for name, (low, high) in SUPPORTED.items())


def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """The table, or INVALID_REQUEST for a software name or version outside KIP-511's pattern."""
    if context.version >= 3 and not _is_well_named(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    understood, quorum = context.version >= 4, context.gateway.quorum
    if context.gateway.raft is None or quorum is None:
        return _cached_response(understood)
    response = make_response(_features(context), minimum_zero_understood=understood, apis=context.apis)
    response.finalized_features_epoch = quorum.image.next_offset - 1
    return response


def unsupported_version_response(apis: Mapping[int, Handler] | None = None) -> ApiVersionsResponse:
    """The answer to a version above ours, to be encoded as version 0: the client reads it and asks again (KIP-511).

    Of such a request a server reads the header only: the body may have any shape.
    """
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_api_keys(apis))


def make_response(
    features: Sequence[Feature], *, minimum_zero_understood: bool, apis: Mapping[int, Handler] | None = None
) -> ApiVersionsResponse:
    """The answer with these features, and these APIs (None: those for clients).

    Java clients up to 3.8 throw on a feature whose minimum is 0, so it is left out below version 4, which exists to say
    that the client understands it (KAFKA-17011).
    """
    shown = [feature for feature in features if feature.min_version > 0 or minimum_zero_understood]
    return ApiVersionsResponse(
        api_keys=_api_keys(apis),
        supported_features=[
            SupportedFeatureKey(name=f.name, min_version=f.min_version, max_version=f.max_version) for f in shown
        ],
        finalized_features=[
            FinalizedFeatureKey(name=f.name, max_version_level=f.finalized, min_version_level=f.finalized)
            for f in features
            if f.finalized > 0
        ],
    )


def _is_well_named(request: ApiVersionsRequest) -> bool:
    return all(_SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))


def _features(context: Context) -> Sequence[Feature]:
    """What a node of our own quorum supports, and what its log has finalised."""
    raft, quorum = context.gateway.raft, context.gateway.quorum
    assert raft is not None and quorum is not None
    finalized = {**quorum.image.features, KRAFT_VERSION: raft.kraft_version}
    return [replace(feature, finalized=finalized.get(feature.name, 0)) for feature in OWN_FEATURES]


@functools.cache
def _cached_response(minimum_zero_understood: bool) -> ApiVersionsResponse:
    return make_response(FEATURES, minimum_zero_understood=minimum_zero_understood)


def _api_keys(apis: Mapping[int, Handler] | None) -> list[ApiVersion]:
    from gateway.handlers.table import handlers  # the table imports this module

    return [
        ApiVersion(api_key=handler.api_key, min_version=handler.versions[0], max_version=handler.versions[-1])
        for handler in (handlers() if apis is None else apis).values()
    ]
