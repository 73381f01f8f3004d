"""Rules of ApiVersions (KIP-35, KIP-511, KIP-584, KIP-1242)."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.connection import PeerClosed
from kwire.conformance.fixtures import metadata, needs_one_broker
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NAME, NO_NODE, small_request
from kwire.conformance.rule import BROKER, SINCE_EVER, Family, Level
from kwire.errors import DecodeError
from kwire.header import encode_request_header, request_header_version
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersionsResponse
from kwire.messages.request_header import RequestHeader
from kwire.protocol import ApiKey, ErrorCode

_KEY: Final = ApiKey.API_VERSIONS
FAMILY: Final = Family("api-versions", "ApiVersions", apis=(_KEY,), since="2.4")


def _ask(
    probe: Probe, version: int, name: str = "kwire-conform", number: str = "1", **expected: Any
) -> Any:
    """``expected``: the cluster and node that a client names from version 5 on."""
    request = ApiVersionsRequest(
        client_software_name=name if version >= 3 else "",
        client_software_version=number if version >= 3 else "",
        **expected,
    )
    return probe.call(request, version)


def _ranges(answer: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}


def _refusal(probe: Probe, version: int, body: bytes) -> ApiVersionsResponse:
    """Send ApiVersions at a version that no server has; return the body of version 0."""
    header = RequestHeader(
        request_api_key=_KEY, request_api_version=version, correlation_id=51, client_id="kwire"
    )
    connection = probe.connect()
    data = header.encode(request_header_version(_KEY, version)) + body
    connection.send_request(data, _KEY, version)
    try:
        received = connection.receive()
    except PeerClosed:
        probe.fail(f"ApiVersions v{version} closes the connection instead of being answered")
    probe.expect(received[:4] == b"\0\0\0\x33", "the answer has another correlation id")
    try:
        answer = ApiVersionsResponse.decode(received[4:], 0)
    except DecodeError as error:
        probe.fail(f"the answer to ApiVersions v{version} is not of version 0: {error}")
    probe.expect_error(answer.error_code, ErrorCode.UNSUPPORTED_VERSION)
    return answer


@FAMILY.rule("too-new", source="KIP-511", section="ApiVersions Request/Response Handling")
def too_new(probe: Probe) -> None:
    """ApiVersions of a version that the server does not have is answered with UNSUPPORTED_VERSION
    in a body of version 0.
    """
    _refusal(probe, 32767, small_request(_KEY, 3).encode(3))


@FAMILY.rule(
    "too-new-names-range", source="KIP-511", section="ApiVersions Request/Response Handling"
)
def too_new_names_range(probe: Probe) -> None:
    """The refusal of a too new ApiVersions request names the versions of ApiVersions, so that the
    client can ask again.
    """
    answer = _refusal(probe, 32767, small_request(_KEY, 3).encode(3))
    low, high = probe.session.offered[_KEY]
    named = _ranges(answer).get(_KEY)
    probe.expect(named is not None, "the refusal does not name ApiVersions")
    probe.expect(
        named == (low, high),
        f"the refusal names versions {named}, otherwise they are {(low, high)}",
    )


@FAMILY.rule(
    "too-new-body-unread", source="KIP-511", section="ApiVersions Request/Response Handling"
)
def too_new_body_unread(probe: Probe) -> None:
    """The body of a too new ApiVersions request is not read: bytes that no version explains are
    refused like any others.
    """
    _refusal(probe, 32767, b"\xff" * 40)


@FAMILY.rule("next-version", source="KIP-511", section="ApiVersions Request/Response Handling")
def next_version(probe: Probe) -> None:
    """ApiVersions one version above the highest offered is refused like any version that is too
    new.
    """
    _refusal(probe, probe.session.offered[_KEY][1] + 1, small_request(_KEY, 3).encode(3))


@FAMILY.rule(
    "again-after-refusal", source="KIP-511", section="ApiVersions Request/Response Handling"
)
def again_after_refusal(probe: Probe) -> None:
    """After the refusal of a too new ApiVersions request the connection can be used."""
    connection = probe.connect()
    header = encode_request_header(_KEY, 32767, 52, "kwire")
    connection.send_request(header + small_request(_KEY, 3).encode(3), _KEY, 32767)
    try:
        connection.receive()
    except PeerClosed:
        probe.fail("a too new ApiVersions request closes the connection")
    version = probe.newest(_KEY, at_most=4)
    answer = probe.call(small_request(_KEY, version), version, connection)
    probe.expect_error(answer.error_code, ErrorCode.NONE)


@FAMILY.rule("same-in-all-versions", source="KIP-35", section="Proposed Changes", since="0.10")
def same_in_all_versions(probe: Probe) -> None:
    """ApiVersions names the same APIs and versions in every version of itself."""
    versions = [version for version in probe.session.versions(_KEY) if version <= 4]
    found = {version: _ranges(_ask(probe, version)) for version in versions}
    first = found[versions[0]]
    for version, ranges in found.items():
        other = {key for key in first.keys() | ranges.keys() if first.get(key) != ranges.get(key)}
        probe.expect(
            not other,
            f"v{versions[0]} and v{version} of ApiVersions differ in APIs {sorted(other)}",
        )


@FAMILY.rule("same-on-all-connections", source="KIP-35", section="Proposed Changes", since="0.10")
def same_on_all_connections(probe: Probe) -> None:
    """ApiVersions has the same answer on every connection."""
    version = probe.newest(_KEY, at_most=4)
    answers = [_ranges(_ask(probe, version)) for _ in range(3)]
    probe.expect(answers[0] == answers[1] == answers[2], "three connections have different APIs")


@FAMILY.rule("twice-on-a-connection", source="KIP-511", section="Proposed Changes")
def twice_on_a_connection(probe: Probe) -> None:
    """ApiVersions can be asked more than once on one connection, at any time."""
    connection, version = probe.connect(), probe.newest(_KEY, at_most=4)
    first = probe.call(small_request(_KEY, version), version, connection)
    second = probe.call(small_request(_KEY, version), version, connection)
    probe.expect(_ranges(first) == _ranges(second), "the second answer differs from the first")


@FAMILY.rule("names-itself", source="KIP-35", section="Proposed Changes", since="0.10")
def names_itself(probe: Probe) -> None:
    """ApiVersions names itself, from version 0 on."""
    answer = _ask(probe, probe.newest(_KEY, at_most=4))
    low, _ = _ranges(answer).get(_KEY, (-1, -1))
    probe.expect(low == 0, f"ApiVersions is offered from version {low} on, not from 0")


@FAMILY.rule(
    "each-api-once", source="ApiVersionsResponse.json", section="ApiKeys: mapKey", since=SINCE_EVER
)
def each_api_once(probe: Probe) -> None:
    """ApiVersions names each API once."""
    keys = [key.api_key for key in _ask(probe, probe.newest(_KEY, at_most=4)).api_keys]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    probe.expect(not twice, f"APIs {twice} are named more than once")


@FAMILY.rule(
    "ranges-are-ranges",
    source="ApiVersionsResponse.json",
    section="MinVersion, MaxVersion",
    since=SINCE_EVER,
)
def ranges_are_ranges(probe: Probe) -> None:
    """The lowest version of an API is not negative, and not above its highest."""
    for key, (low, high) in _ranges(_ask(probe, probe.newest(_KEY, at_most=4))).items():
        probe.expect(0 <= low <= high, f"API {key} is offered from v{low} to v{high}")


@FAMILY.rule("keys-of-kafka", source="ApiKeys", level=Level.SHOULD, since=SINCE_EVER)
def keys_of_kafka(probe: Probe) -> None:
    """Every API that is offered has a key of Kafka's list."""
    known = {int(key) for key in ApiKey}
    offered = _ranges(_ask(probe, probe.newest(_KEY, at_most=4)))
    unknown = sorted(set(offered) - known)
    probe.expect(not unknown, f"APIs {unknown} are offered, which Kafka 4.4 does not have")


@FAMILY.rule(
    "no-removed-versions",
    source="KIP-896",
    section="Proposed Changes",
    since="4.0",
    level=Level.SHOULD,
)
def no_removed_versions(probe: Probe) -> None:
    """Versions that Kafka 4.0 removed are not offered, but for Produce, which names them from 0 on
    for old librdkafka.
    """
    offered = _ranges(_ask(probe, probe.newest(_KEY, at_most=4)))
    for key, (low, _) in sorted(offered.items()):
        if key in list(ApiKey) and key != ApiKey.PRODUCE:
            valid = ApiKey(key).versions
            if valid and low < valid[0]:
                probe.fail(
                    f"{ApiKey(key).title} is offered from v{low} on, by Kafka 4.0 from v{valid[0]}"
                )


@FAMILY.rule(
    "throttle-time", source="ApiVersionsResponse.json", section="ThrottleTimeMs", since="0.11"
)
def throttle_time(probe: Probe) -> None:
    """The throttle time of an answer is not negative."""
    for version in probe.session.versions(_KEY):
        if 1 <= version <= 4:
            time_ms = _ask(probe, version).throttle_time_ms
            probe.expect(time_ms >= 0, f"v{version} has a throttle time of {time_ms} ms")


def _refuses_software(probe: Probe, name: str, number: str) -> None:
    answer = _ask(probe, probe.need(_KEY, 3, 4), name, number)
    probe.expect_error(answer.error_code, ErrorCode.INVALID_REQUEST)


_SOFTWARE: Final = "ClientSoftwareName and ClientSoftwareVersion"


@FAMILY.rule("software-name-empty", source="KIP-511", section=_SOFTWARE)
def software_name_empty(probe: Probe) -> None:
    """ApiVersions from version 3 on with an empty software name is answered with
    INVALID_REQUEST.
    """
    _refuses_software(probe, "", "1.0")


@FAMILY.rule("software-version-empty", source="KIP-511", section=_SOFTWARE)
def software_version_empty(probe: Probe) -> None:
    """ApiVersions from version 3 on with an empty software version is answered with
    INVALID_REQUEST.
    """
    _refuses_software(probe, "kwire", "")


@FAMILY.rule("software-name-begins-with-dash", source="KIP-511", section=_SOFTWARE)
def software_name_begins_with_dash(probe: Probe) -> None:
    """A software name that begins with a dash is answered with INVALID_REQUEST."""
    _refuses_software(probe, "-kwire", "1.0")


@FAMILY.rule("software-name-with-blank", source="KIP-511", section=_SOFTWARE)
def software_name_with_blank(probe: Probe) -> None:
    """A software name with a blank is answered with INVALID_REQUEST."""
    _refuses_software(probe, "k wire", "1.0")


@FAMILY.rule("software-name-with-letters", source="KIP-511", section=_SOFTWARE)
def software_name_with_letters(probe: Probe) -> None:
    """A software name of letters, digits, dashes and points is accepted."""
    answer = _ask(probe, probe.need(_KEY, 3, 4), "apache-kafka-java.2", "4.3.1-rc0")
    probe.expect_error(answer.error_code, ErrorCode.NONE)


@FAMILY.rule(
    "expected-broker", source="KafkaApis", section="ApiVersions", since="4.4", roles=BROKER
)
def expected_broker(probe: Probe) -> None:
    """A client that names the cluster and the node of the broker is answered like any other."""
    version = probe.need(_KEY, 5)
    needs_one_broker(probe)
    found = metadata(probe, [])
    [broker] = found.brokers
    answer = _ask(probe, version, cluster_id=found.cluster_id, node_id=broker.node_id)
    probe.expect_error(answer.error_code, ErrorCode.NONE)


@FAMILY.rule(
    "other-broker", source="KafkaApis", section="REBOOTSTRAP_REQUIRED", since="4.4", roles=BROKER
)
def other_broker(probe: Probe) -> None:
    """A client that expects another node, or a broker of another cluster, has to bootstrap again
    (KIP-1242).
    """
    version = probe.need(_KEY, 5)
    found = metadata(probe, [])
    for cluster_id, node_id in (
        (found.cluster_id, NO_NODE),
        (NO_NAME, found.brokers[0].node_id),
    ):
        answer = _ask(probe, version, cluster_id=cluster_id, node_id=node_id)
        probe.expect_error(
            answer.error_code,
            ErrorCode.REBOOTSTRAP_REQUIRED,
            where=f"node {node_id} of cluster {cluster_id}",
        )


@FAMILY.rule(
    "cluster-without-node",
    source="ApiVersionsRequest.isValid",
    section="INVALID_REQUEST",
    since="4.4",
)
def cluster_without_node(probe: Probe) -> None:
    """A client that names a cluster and no node, or a node and no cluster, has INVALID_REQUEST."""
    version = probe.need(_KEY, 5)
    for cluster_id, node_id in ((NO_NAME, -1), (None, NO_NODE)):
        answer = _ask(probe, version, cluster_id=cluster_id, node_id=node_id)
        probe.expect_error(answer.error_code, ErrorCode.INVALID_REQUEST)


@FAMILY.rule("header-without-tags", source="KIP-511", section="ApiVersions Response Header")
def header_without_tags(probe: Probe) -> None:
    """The answer to a flexible version of ApiVersions has a response header of version 0, without
    tagged fields, so that clients of any version can read it.
    """
    version = probe.need(_KEY, 3, 4)
    connection = probe.connect()
    number, data = probe.encode(small_request(_KEY, version), version)
    connection.send_request(data, _KEY, version)
    received = connection.receive()
    try:
        ApiVersionsResponse.decode(received[4:], version)
    except DecodeError as error:
        with_tags = received[4:5] == b"\0" and _decodes(received[5:], version)
        probe.fail(
            "the header of the answer has tagged fields"
            if with_tags
            else f"the answer is not one of v{version}: {error}"
        )
    probe.expect(received[:4] == number.to_bytes(4, "big"), "the answer has another id")


def _decodes(data: bytes, version: int) -> bool:
    try:
        ApiVersionsResponse.decode(data, version)
    except DecodeError:
        return False
    return True


@FAMILY.rule("features-are-ranges", source="KIP-584", section="ApiVersions", since="2.7")
def features_are_ranges(probe: Probe) -> None:
    """The lowest level of a supported feature is not above its highest, and each is named once."""
    answer = _ask(probe, probe.need(_KEY, 3, 4))
    names = [feature.name for feature in answer.supported_features]
    probe.expect(len(set(names)) == len(names), "a supported feature is named more than once")
    for feature in answer.supported_features:
        probe.expect(
            0 <= feature.min_version <= feature.max_version,
            f"{feature.name} is supported from {feature.min_version} to {feature.max_version}",
        )


@FAMILY.rule("supported-features-from-one", source="KIP-584", section="ApiVersions", since="2.7")
def supported_features_from_one(probe: Probe) -> None:
    """Below version 4 of ApiVersions no supported feature has 0 as its lowest level, which older
    clients refuse (KAFKA-17011).
    """
    answer = _ask(probe, probe.need(_KEY, 3))
    for feature in answer.supported_features:
        probe.expect(feature.min_version > 0, f"v3 names {feature.name} with a lowest level of 0")


@FAMILY.rule("finalized-is-supported", source="KIP-584", section="ApiVersions", since="2.7")
def finalized_is_supported(probe: Probe) -> None:
    """Every finalized feature is supported at its level."""
    answer = _ask(probe, probe.need(_KEY, 4))
    supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    for feature in answer.finalized_features:
        low, high = supported.get(feature.name, (1, 0))
        level = feature.max_version_level
        probe.expect(
            low <= level <= high, f"{feature.name} is finalized at {level}, supported: {low}-{high}"
        )


@FAMILY.rule("finalized-epoch", source="KIP-584", section="FinalizedFeaturesEpoch", since="2.7")
def finalized_epoch(probe: Probe) -> None:
    """Where features are finalized, the epoch of the finalized features is not negative."""
    answer = _ask(probe, probe.need(_KEY, 3, 4))
    if not answer.finalized_features:
        probe.not_applicable("no feature is finalized")
    probe.expect(
        answer.finalized_features_epoch >= 0,
        f"features are finalized at epoch {answer.finalized_features_epoch}",
    )
