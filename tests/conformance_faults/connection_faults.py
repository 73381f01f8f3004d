"""More seeded faults of connections and ApiVersions, and those of SASL, each with its rule."""

from __future__ import annotations

from typing import Any, Final

from kwire.frame import frame
from kwire.header import decode_request_header, peek
from kwire.messages.api_versions_response import FinalizedFeatureKey, SupportedFeatureKey
from kwire.protocol import ApiKey
from kwire.registry import request_type
from tests.conformance_faults.broker_changes import every, no_error, top_error
from tests.conformance_faults.changes import Change, Row, faults_of, names_a_cluster, when
from tests.conformance_faults.faults import DifferentEachTime, HiddenClose, Lost
from tests.conformance_faults.proxy import Changed, Fault

_VERSIONS: Final = ApiKey.API_VERSIONS
_UNSUPPORTED: Final = b"\0\x23"


class ReadsUnknownBodies(Fault):
    """The server reads the body of a too new request, and closes."""

    def request(self, data: bytes) -> bytes:
        return b"\xff" if data.endswith(b"\xff" * 20) else data


class ReadsToTheEnd(Fault):
    """The server closes at bytes behind the body of a request."""

    def request(self, data: bytes) -> bytes:
        api, version, _ = peek(data)
        form = request_type(api)
        _, start = decode_request_header(data)
        _, end = form.decode_from(data, version, start)
        return data if end == len(data) else b"\xff"


class ClosesAfterRefusal(Fault):
    """The connection ends with the request behind a refusal."""

    def __init__(self) -> None:
        self._refused = False

    def request(self, data: bytes) -> bytes:
        return b"\xff" if self._refused else data

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        self._refused = response[4:6] == _UNSUPPORTED
        return [frame(response)]


class LostBeforeFin(Lost):
    """The response is lost, and the connection ends with the client's bytes."""

    loses_responses = False


class OthersDie(Fault):
    """A fault on one connection ends the others."""

    def __init__(self) -> None:
        self._broken = False

    def received(self, data: bytes) -> bytes | None:
        if self._broken:
            return None
        self._broken = data[:4] == b"\xff\xff\xff\xff"
        return data


class TellsWhetherUsersExist(Changed):
    """Each failed authentication has another message."""

    def __init__(self) -> None:
        super().__init__(ApiKey.SASL_AUTHENTICATE, self._number)
        self._count = 0

    def _number(self, answer: Any, request: Any) -> None:
        self._count += 1
        answer.error_message = f"there are {self._count} such users"


def _supports(low: int, high: int) -> Change:
    return every(
        supported_features=[SupportedFeatureKey(name="x", min_version=low, max_version=high)]
    )


def _is_known(request: Any) -> bool:
    return bool(request.mechanism != "NO-SUCH")


def _drop_api(answer: Any, request: Any) -> None:
    answer.api_keys = list(answer.api_keys)[1:]


def _invent_api(answer: Any, request: Any) -> None:
    answer.api_keys = [*answer.api_keys, answer.api_keys[0].copy(api_key=20000)]


CONNECTION_FAULTS: Final[list[Row]] = [
    ("a request before FIN is lost", "framing.answered-after-half-close", LostBeforeFin(_VERSIONS)),
    ("FIN leaves the connection open", "framing.closed-after-half-close", HiddenClose()),
    ("HTTP leaves the connection open", "framing.http-request", HiddenClose()),
    ("a long client id is waited for", "framing.client-id-beyond-frame", HiddenClose()),
    ("half a header is waited for", "framing.client-id-length-negative", HiddenClose()),
    ("API key -1 is taken", "framing.api-key-negative", HiddenClose()),
    ("any count of tags is taken", "framing.tag-count-beyond-frame", HiddenClose()),
    ("a fault behind a request is passed over", "framing.answers-before-a-fault",
     HiddenClose()),
    ("bytes behind a request close", "tolerance.Metadata.bytes-behind", ReadsToTheEnd()),
    ("a fault ends other connections", "framing.others-live-on", OthersDie()),
    ("unknown bodies are read", "api-versions.too-new-body-unread", ReadsUnknownBodies()),
    ("a refusal ends the connection", "api-versions.again-after-refusal",
     ClosesAfterRefusal()),
    ("the second ApiVersions differs", "api-versions.twice-on-a-connection",
     DifferentEachTime()),
    *faults_of(
        _VERSIONS,
        ("an API of key 20000", "api-versions.keys-of-kafka", _invent_api),
        ("empty software versions", "api-versions.software-version-empty", no_error(42)),
        ("software names with dashes first", "api-versions.software-name-begins-with-dash",
         no_error(42)),
        ("software names with blanks", "api-versions.software-name-with-blank", no_error(42)),
        ("no software names with letters", "api-versions.software-name-with-letters",
         top_error(42)),
        ("no client is where it should be", "api-versions.expected-broker",
         when(names_a_cluster, top_error(129))),
        ("other nodes than expected", "api-versions.other-broker", no_error(129)),
        ("clusters without a node", "api-versions.cluster-without-node", no_error(42)),
        ("features upside down", "api-versions.features-are-ranges", _supports(5, 2)),
        ("features from 0 in version 3", "api-versions.supported-features-from-one",
         _supports(0, 2)),
        ("features that are not supported", "api-versions.finalized-is-supported",
         every(finalized_features=[FinalizedFeatureKey(name="x", max_version_level=3)])),
        ("no epoch of features", "api-versions.finalized-epoch",
         every(finalized_features_epoch=-1)),
    ),
]  # fmt: skip

SASL_FAULTS: Final[list[Row]] = [
    ("requests before the authentication", "sasl.nothing-before-authentication",
     HiddenClose()),
    ("tokens before the handshake", "sasl.no-authenticate-before-handshake", HiddenClose()),
    ("messages tell about users", "sasl.error-tells-nothing", TellsWhetherUsersExist()),
    *faults_of(
        _VERSIONS,
        ("other APIs before the authentication", "sasl.versions-before-authentication",
         _drop_api),
        ("errors behind the authentication", "sasl.authenticated-works", top_error(42)),
    ),
    *faults_of(
        ApiKey.SASL_HANDSHAKE,
        ("any mechanism", "sasl.unknown-mechanism", no_error(33)),
        ("no mechanism", "sasl.handshake", when(_is_known, top_error(33))),
    ),
    *faults_of(
        ApiKey.SASL_AUTHENTICATE,
        ("any password", "sasl.wrong-password", no_error(58)),
        ("no password", "sasl.plain-without-password", no_error(58)),
        ("any SCRAM message", "sasl.scram-rubbish", no_error(58)),
    ),
]  # fmt: skip
