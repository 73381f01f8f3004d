"""Sends ApiVersions to a Kafka node, as Java's ``NetworkClient`` does, and indexes the response."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.base.error_text import error_with_code
from gateway.base.version import installed_version
from gateway.server.node_client.errors import BadAnswer
from kwire.header import API_VERSIONS
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.server.node_client.link import Link

#: Newest version that is sent: from 5 on a request names the cluster it is for (KIP-1242).
_NEWEST: Final = 4
_SOFTWARE_NAME: Final = "kwire"
#: The form of a software version that a server accepts (KIP-511).
_SOFTWARE_VERSION: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class AdvertisedVersions:
    """The ApiVersions response of a node: ranges of API versions, supported and finalized features
    (KIP-584). The epoch of the finalized ones is -1 where it is unknown.
    """

    versions: Mapping[int, range]
    supported_features: Mapping[str, range]
    finalized_features: Mapping[str, int]
    finalized_features_epoch: int


async def ask_versions(
    link: Link, client_id: str | None, newest: int = _NEWEST
) -> AdvertisedVersions:
    """Send ApiVersions at version ``newest``, and again at an older one if the node answers with
    UNSUPPORTED_VERSION (KIP-511). Raises as Link.ask, BadAnswer.
    """
    version, answer = newest, await _ask(link, client_id, newest)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = _fallback(answer.api_keys, newest)
        answer = await _ask(link, client_id, version)
    if answer.error_code:
        raise BadAnswer(
            link.who,
            f"ApiVersions v{version} was refused with {error_with_code(answer.error_code)}",
            "is it a Kafka node?",
        )
    return AdvertisedVersions(
        {one.api_key: range(one.min_version, one.max_version + 1) for one in answer.api_keys},
        {
            one.name: range(one.min_version, one.max_version + 1)
            for one in answer.supported_features
        },
        {one.name: one.max_version_level for one in answer.finalized_features},
        answer.finalized_features_epoch,
    )


async def _ask(link: Link, client_id: str | None, version: int) -> Any:
    request = ApiVersionsRequest()
    if version >= 3:
        request = ApiVersionsRequest(
            client_software_name=_SOFTWARE_NAME, client_software_version=_software_version()
        )
    return await link.ask(
        request, version, client_id, answered_in=lambda frame: _answered_in(frame, version)
    )


def _answered_in(frame: bytes, asked: int) -> int:
    """The version of a response frame. A node answers a version that it does not know in version 0
    (KIP-511); in every version the body begins with the error code.
    """
    return (
        0
        if int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
        else asked
    )


def _fallback(offered: Sequence[Any], asked: int) -> int:
    """The version to send after UNSUPPORTED_VERSION: the newest that the node offers, else 0, and
    always below ``asked`` (``NetworkClient.handleApiVersionsResponse``).
    """
    newest = max((one.max_version for one in offered if one.api_key == API_VERSIONS), default=0)
    return min(max(newest, 0), asked - 1) if asked else 0


def _software_version() -> str:
    version = installed_version()
    return version if _SOFTWARE_VERSION.fullmatch(version) else "unknown"
