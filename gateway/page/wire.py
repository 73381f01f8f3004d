"""Dissects bytes of Kafka's protocol for the page, and lists every API and version with its fields.

The reader is that of ``kwire dissect``; records inside messages are opened, secrets are hidden.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.base.address import Address
from gateway.base.sizes import KIB, MIB
from kwire.dissect.inside import hide_secrets, open_records
from kwire.dissect.node_json import node_json
from kwire.errors import DecodeError, UnknownApi, UnsupportedVersion
from kwire.protocol import ApiKey
from kwire.reference import valid_versions
from kwire.reference.capture import is_capture, packets
from kwire.reference.declare import spans
from kwire.reference.facts import facts, name_by_key
from kwire.reference.frames import dissect_metadata_record, dissect_request, dissect_response
from kwire.reference.parse_trace import Budget, Node
from kwire.reference.request_matching import match_requests
from kwire.reference.tcp import segments

#: Bytes that the page dissects: a tree takes some hundred times as many.
BYTES_MAX: Final = 32 * KIB
#: Fields of a tree that is shown, or of all trees of a capture, and the bytes that compressed
#: batches in them become.
NODES_MAX: Final = 10_000
DECOMPRESSED_BYTES_MAX: Final = 1 * MIB
#: Bytes and frames of a capture.
CAPTURE_BYTES_MAX: Final = 256 * KIB
FRAMES_MAX: Final = 200
_SIZE_BYTES: Final = 4


class BadInput(ValueError):
    """A request of the page that cannot be carried out; the text says why."""


def dissected(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree of the bytes ``asked["hex"]``.

    ``kind`` is ``request``, ``response`` (with the number ``api`` and ``version``) or ``record``, a
    record of the metadata log. A frame may begin with its size. Raises BadInput.
    """
    data = _bytes(asked.get("hex"))
    if len(data) - _SIZE_BYTES == int.from_bytes(data[:_SIZE_BYTES], "big"):
        data = data[_SIZE_BYTES:]
    budget = Budget(NODES_MAX, DECOMPRESSED_BYTES_MAX)
    tree = _tree(data, asked, budget)
    open_records(tree, budget)
    hide_secrets(tree)
    if budget.spent:
        raise BadInput(
            f"The tree has more than {NODES_MAX} fields, or {DECOMPRESSED_BYTES_MAX} decompressed"
            " bytes: use kwire dissect."
        )
    return {"bytes": len(data), "ok": tree.failure() is None, "tree": node_json(tree)}


def captured(data: bytes) -> dict[str, Any]:
    """Return the frames of a packet capture (pcap, pcapng), each with its tree, and whether there
    are ``more`` than can be shown. Raises BadInput.
    """
    if not is_capture(data[:_SIZE_BYTES]):
        raise BadInput("That is no packet capture (pcap or pcapng).")
    frames, budget = list[dict[str, Any]](), Budget(NODES_MAX, DECOMPRESSED_BYTES_MAX)
    try:
        for one in match_requests(segments(packets(io.BytesIO(data))), budget=lambda _: budget):
            open_records(one.tree, budget)
            hide_secrets(one.tree)
            if len(frames) == FRAMES_MAX or budget.spent:
                return {"frames": frames, "more": True}
            frames.append(
                {
                    "time": round(1000 * one.time),
                    "source": str(Address(*one.source)),
                    "target": str(Address(*one.target)),
                    "title": f"{one.kind} {one.api} v{one.version}, {one.correlation_id}",
                    "ok": one.tree.failure() is None,
                    "tree": node_json(one.tree),
                }
            )
    except DecodeError as error:
        raise BadInput(f"The capture cannot be read: {error}.") from None
    return {"frames": frames, "more": False}


def _bytes(text: Any) -> bytes:
    digits = re.sub(r"[\s:]|0[xX]", "", text) if isinstance(text, str) else ""
    if not digits:
        raise BadInput("Give the bytes in hex.")
    if len(digits) > 2 * BYTES_MAX:
        raise BadInput(f"At most {BYTES_MAX} bytes are dissected here: use kwire dissect.")
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise BadInput("That is not hex; only blanks and colons may be between digits.") from None


def _tree(data: bytes, asked: Mapping[str, Any], budget: Budget) -> Node:
    kind, api, version = (asked.get(name) for name in ("kind", "api", "version"))
    if kind == "request":
        return dissect_request(data, budget)
    if kind == "record":
        return dissect_metadata_record(data, budget)
    if kind != "response" or not isinstance(api, int) or not isinstance(version, int):
        raise BadInput("The kind is request, response (with api and version) or record.")
    return dissect_response(data, api, version, budget)


def apis() -> list[dict[str, Any]]:
    """Return key, name and the first and last version of every API."""
    return [
        {
            "key": int(api),
            "name": name_by_key("request", int(api)).removesuffix("Request"),
            "first": versions[0],
            "last": versions[-1],
        }
        for api in ApiKey
        if (versions := valid_versions(facts(name_by_key("request", int(api)))))
    ]


def api(key: int, version: int) -> dict[str, Any]:
    """Return the fields of request and response of an API at a version: depth, name, type, tag and
    whether null is allowed. Raises BadInput.
    """
    try:
        schemas = {kind: facts(name_by_key(kind, key)) for kind in ("request", "response")}
    except UnknownApi as error:
        raise BadInput(f"{error}.") from None
    if version not in valid_versions(schemas["request"]):
        raise BadInput(str(UnsupportedVersion(f"{schemas['request']['name']} v{version}")))
    return {kind: list(_fields(schema, version)) for kind, schema in schemas.items()}


def _fields(schema: Mapping[str, Any], version: int) -> Iterator[dict[str, Any]]:
    common = {one["name"]: one["fields"] for one in schema.get("commonStructs", ())}

    def inside(fields: Any, depth: int) -> Iterator[dict[str, Any]]:
        for field in fields:
            if not spans(field["versions"], version):
                continue
            yield {
                "depth": depth,
                "name": field["name"],
                "type": field["type"],
                "tag": field.get("tag") if spans(field.get("taggedVersions"), version) else None,
                "nullable": spans(field.get("nullableVersions"), version),
            }
            name = field["type"].removeprefix("[]")
            yield from inside(field.get("fields") or common.get(name, ()), depth + 1)

    return inside(schema["fields"], 0)
