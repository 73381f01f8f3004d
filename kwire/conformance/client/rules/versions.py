"""Rules of versions: ApiVersions and its refusal, servers that are older and newer."""

from __future__ import annotations

from typing import Final

from kwire.conformance.client.answers import offered
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.rule import CLIENT, Family
from kwire.protocol import ApiKey

FAMILY: Final = Family("client-versions", "Versions that a client sends")

_KEY: Final = ApiKey.API_VERSIONS
_APIS: Final = (_KEY,)
#: The versions of Kafka 2.3, the last release without flexible versions. Java's client of Kafka 4
#: works with brokers from 2.1 on (KIP-896).
_OLD: Final[dict[int, tuple[int, int]]] = {
    ApiKey.PRODUCE: (0, 7), ApiKey.FETCH: (4, 11), ApiKey.LIST_OFFSETS: (1, 5),
    ApiKey.METADATA: (0, 8), ApiKey.OFFSET_COMMIT: (2, 7), ApiKey.OFFSET_FETCH: (1, 5),
    ApiKey.FIND_COORDINATOR: (0, 2), ApiKey.JOIN_GROUP: (0, 5), ApiKey.HEARTBEAT: (0, 3),
    ApiKey.LEAVE_GROUP: (0, 2), ApiKey.SYNC_GROUP: (0, 3), ApiKey.API_VERSIONS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 1), ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 3),
    ApiKey.SASL_AUTHENTICATE: (0, 1),
}  # fmt: skip
#: An API that no Kafka has.
_NO_API: Final = 4711


def _in_range(probe: ClientProbe) -> None:
    ranges = offered(probe.state)
    for seen in probe.traffic.all():
        low, high = ranges.get(seen.api, (0, -1))
        if seen.api != _KEY and not low <= seen.version <= high:
            title = ApiKey(seen.api).title
            probe.fail(f"the client sent {title} v{seen.version}; v{low} to v{high} are offered")


@FAMILY.rule("in-range", source="KIP-35", section="Proposed Changes", roles=CLIENT, apis=_APIS)
def in_range(probe: ClientProbe) -> None:
    """A client that asks for ApiVersions sends only versions in the ranges of the answer."""
    probe.prepare()
    probe.start()
    probe.works()
    _in_range(probe)


@FAMILY.rule(
    "older-server", source="KIP-896", section="Client compatibility", roles=CLIENT, apis=_APIS
)
def older_server(probe: ClientProbe) -> None:
    """A client works with a broker that offers the versions of Kafka 2.3, and sends only these."""
    probe.prepare()
    probe.state.offered = dict(_OLD)
    probe.start()
    probe.works()
    _in_range(probe)


@FAMILY.rule("newer-server", source="KIP-35", section="Proposed Changes", roles=CLIENT, apis=_APIS)
def newer_server(probe: ClientProbe) -> None:
    """A client works with a broker that offers twenty more versions of each API than Kafka has."""
    probe.prepare()
    probe.state.offered = {
        api: (low, high + 20) for api, (low, high) in offered(probe.state).items() if api != _KEY
    }
    probe.start()
    probe.works()
    unknown = [seen for seen in probe.traffic.all() if seen.fault]
    probe.expect(not unknown, "the client sent a version that Kafka does not have")


@FAMILY.rule("unknown-apis", source="KIP-35", section="Proposed Changes", roles=CLIENT, apis=_APIS)
def unknown_apis(probe: ClientProbe) -> None:
    """A client ignores APIs in the answer to ApiVersions that it does not know."""
    probe.prepare()
    probe.state.offered = {_NO_API: (0, 3), 32767: (2, 9)}
    probe.start()
    probe.works()


@FAMILY.rule(
    "refused",
    source="KIP-511",
    section="ApiVersions Request/Response Handling",
    since="2.4",
    roles=CLIENT,
    apis=_APIS,
)
def refused(probe: ClientProbe) -> None:
    """A client whose ApiVersions request is refused with UNSUPPORTED_VERSION, in a body of version
    0, sends a version that the refusal names, on the same connection or another one.
    """
    probe.uses(_KEY, 1)
    probe.prepare()
    probe.state.offered = {_KEY: (0, 0)}
    probe.start()
    probe.until(
        lambda: [seen for seen in probe.traffic.all(_KEY) if seen.version == 0],
        "an ApiVersions request of version 0",
    )
    probe.works()
