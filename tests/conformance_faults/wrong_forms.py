"""Two servers whose answers have a wrong form, for the rules that are alike for every API.

One answers every request with its defaults and a byte too many, whatever the version, also a
request that ends early. The other closes every connection.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final

from kwire.conformance.catalog import select, server_rules
from kwire.conformance.rule import Rule
from kwire.conformance.session import codec_versions
from kwire.frame import frame
from kwire.header import encode_response_header, peek
from kwire.protocol import ApiKey
from kwire.registry import response_type
from tests.kwire.conformance.scripted import Script

FAMILIES: Final = ("schema", "tolerance", "versions")
#: Rules that demand an answer where a server might close the connection.
_OF_CLOSING: Final = (".unknown-tags", ".bytes-behind")
#: One API has a lowest version above 0, so that there is a version below it.
_OFFERED: Final[Mapping[int, tuple[int, int]]] = {
    api: (known[0] + 1, known[-1] + 1) for api in ApiKey if (known := codec_versions(api))
}


def answers(connection: socket.socket, request: bytes) -> bool:
    """Answer with a byte too many."""
    api, version, number = peek(request)
    known = codec_versions(ApiKey(api))
    at = min(max(version, known[0]), known[-1])
    body = response_type(api)().encode(at)
    connection.sendall(frame(encode_response_header(api, at, number), body, b"\0"))
    return True


def closes(connection: socket.socket, request: bytes) -> bool:
    """Close the connection."""
    return False


def offered(rule: Rule) -> Mapping[int, tuple[int, int]]:
    """The versions that the server claims to have, for a rule."""
    if rule.family == "versions":
        return _OFFERED
    return {api: (known[0], known[-1]) for api in ApiKey if (known := codec_versions(api))}


#: Each rule of the families, and the server that breaks it.
WRONG_FORMS: Final[tuple[tuple[Rule, Script], ...]] = tuple(
    (rule, closes if rule.id.endswith(_OF_CLOSING) else answers)
    for rule in select(server_rules(), patterns=FAMILIES)
)
