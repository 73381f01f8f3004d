"""What a Kafka node offers: ApiVersions asked of it as stock clients do, and the answer in a form
to look things up in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.server.upstream_errors import BadAnswer
from gateway.version import installed_version
from kwire.header import API_VERSIONS
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.server.upstream_link import Link

#: Newest version that is asked for: from 5 on a request names the cluster it is for (KIP-1242).
_NEWEST: Final = 4
_SOFTWARE_NAME: Final = "kwire"
#: What a server takes as a version (KIP-511).
_SOFTWARE_VERSION: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True)
class Offer:
    """Versions by api key, and features by name (KIP-584): levels supported, levels finalized as of
    an epoch (-1: unknown).
    """

    versions: Mapping[int, range]
    supported_features: Mapping[str, range]
    finalized_features: Mapping[str, int]
    finalized_features_epoch: int


async def ask_versions(link: Link, client_id: str | None, newest: int = _NEWEST) -> Offer:
    """Ask at version ``newest``, or at what the node then says it has (error 35, KIP-511). Raises
    as Link.ask, BadAnswer.
    """
    version, answer = newest, await _ask(link, client_id, newest)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = _fallback(answer.api_keys, newest)
        answer = await _ask(link, client_id, version)
    if answer.error_code:
        raise BadAnswer(
            link.who,
            f"ApiVersions v{version} was refused with error {answer.error_code}",
            "is it a Kafka node?",
        )
    return Offer(
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
    """To a version that it does not know a node answers in version 0; every version begins with the
    error code.
    """
    return (
        0
        if int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
        else asked
    )


def _fallback(offered: Sequence[Any], asked: int) -> int:
    """As ``NetworkClient.handleApiVersionsResponse``: the newest version that is offered, else 0;
    always a lower one.
    """
    newest = max((one.max_version for one in offered if one.api_key == API_VERSIONS), default=0)
    return min(max(newest, 0), asked - 1) if asked else 0


def _software_version() -> str:
    version = installed_version()
    return version if _SOFTWARE_VERSION.fullmatch(version) else "unknown"
