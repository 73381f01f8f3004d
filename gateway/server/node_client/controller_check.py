"""Checks that a node which was reached at an address is a controller, and names the controllers
where it is not.

Kafka's brokers offer Metadata and no FetchSnapshot, its controllers the other way round; so do
kwire's listeners. A broker forwards DescribeQuorum, whose answer has the controllers' endpoints
(KIP-853).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from gateway.base.address import Address
from gateway.quorum.requests import DESCRIBE_QUORUM_VERSIONS, describe_quorum
from gateway.server.logging.logs import escape
from gateway.server.node_client.connection import Upstream
from gateway.server.node_client.errors import NotAController, UpstreamError
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from gateway.server.node_client.settings import ConnectionSettings
    from kwire.messages.describe_quorum_response import DescribeQuorumResponse


async def require_controller(upstream: Upstream, timeout_s: float) -> None:
    """Close ``upstream`` and raise NotAController if it is a connection to a broker."""
    if ApiKey.METADATA not in upstream.versions or ApiKey.FETCH_SNAPSHOT in upstream.versions:
        return
    try:
        controllers = await _controllers(upstream, timeout_s)
    except UpstreamError:
        controllers = []
    finally:
        await upstream.aclose()
    advice = (
        f"controllers listen at {', '.join(controllers)}"
        if controllers
        else "the address of a controller's listener is needed"
    )
    raise NotAController(str(upstream.address), "it is a broker, or a gateway's listener", advice)


async def check_addresses(
    addresses: Sequence[Address], settings: ConnectionSettings, *, ask: bool = False
) -> tuple[bool, dict[Address, UpstreamError]]:
    """Connect to all addresses at once. Return whether one is a controller, and what is wrong with
    the others, as far as that was known by then.

    ``ask``: the controller has to answer a request, too, and all addresses are tried.
    """
    failures: dict[Address, UpstreamError] = {}
    found = False

    async def check(address: Address) -> None:
        nonlocal found
        try:
            upstream = await Upstream.connect(
                address,
                settings.security,
                client_id=settings.client_id,
                timeout_s=settings.timeout_s,
            )
            await require_controller(upstream, settings.timeout_s)
            if ask:  # a listener with SASL answers ApiVersions to every client, and nothing else
                await _describe(upstream, settings.timeout_s)
            await upstream.aclose()
        except UpstreamError as error:
            failures[address] = error
            return
        found = True
        if ask:
            return
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for address in addresses:
            nursery.start_soon(check, address)
    return found, {address: failures[address] for address in addresses if address in failures}


async def _describe(upstream: Upstream, timeout_s: float) -> DescribeQuorumResponse:
    version = upstream.common_version(ApiKey.DESCRIBE_QUORUM, DESCRIBE_QUORUM_VERSIONS)
    answer: DescribeQuorumResponse = await upstream.call(
        describe_quorum(), version, timeout_s=timeout_s
    )
    return answer


async def _controllers(upstream: Upstream, timeout_s: float) -> list[str]:
    answer = await _describe(upstream, timeout_s)
    return [
        str(escape(str(Address(one.host, one.port))))
        for node in answer.nodes
        for one in node.listeners
    ]
