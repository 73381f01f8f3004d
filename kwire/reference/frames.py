"""Dissects whole frames: header and body of a request or response, a metadata record with its three
varints.

Takes frames without their four size bytes. Knows which header belongs to which request; nothing of
connections.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from kwire.errors import DecodeError, UnknownApi, UnsupportedVersion
from kwire.reference import Budget, Node, ParseTree, Reference, reference, valid_versions
from kwire.reference.declare import span
from kwire.reference.facts import facts, name_by_key
from kwire.reference.primitives import Refused, UnsignedVarint

API_VERSIONS: Final = 18
#: A peer that does not know the version of an ApiVersions request answers in version 0, whatever
#: was asked.
FALLBACK_VERSION: Final = 0


def request_header_version(api_key: int, version: int) -> int:
    """The version of the request header: by ``headerVersions`` of the schema (KIP-1313), else 2 for
    flexible versions of the api and 1 for others. Raises UnknownApi.
    """
    declared = _declared("request", api_key, version)
    if declared is not None:
        return declared
    return 2 if version in _flexible("request", api_key) else 1


def response_header_version(api_key: int, version: int) -> int:
    """The version of the response header: by ``headerVersions`` of the schema, else 1 for flexible
    versions and 0 for others; ApiVersions always 0. Raises UnknownApi.
    """
    declared = _declared("response", api_key, version)
    if declared is not None:
        return declared
    return 1 if api_key != API_VERSIONS and version in _flexible("response", api_key) else 0


def parse_request(frame: bytes) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Header and body of a request. Raises DecodeError, UnknownApi, UnsupportedVersion."""
    key, version = peek(frame)
    header, at = reference("RequestHeader", request_header_version(key, version)).parse_from(frame)
    body, _ = reference(name_by_key("request", key), version).parse_from(frame, at)
    return header, body


def parse_response(
    frame: bytes, api_key: int, version: int
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Header and body of the response to a request of that key and version. Raises as
    :func:`parse_request`.
    """
    header, at = reference("ResponseHeader", response_header_version(api_key, version)).parse_from(
        frame
    )
    body, _ = reference(name_by_key("response", api_key), version).parse_from(frame, at)
    return header, body


def peek(frame: bytes) -> tuple[int, int]:
    """Api key and version of a request. Raises DecodeError."""
    if len(frame) < 8:
        raise DecodeError(
            f"a request has at least 8 bytes of header, not {len(frame)}",
            offset=0,
            rule="truncated",
        )
    key, version = struct.unpack_from(">hh", frame)
    return key, version


def dissect_request(frame: bytes, budget: Budget | None = None) -> Node:
    """The tree of a request, header and body. Bad bytes do not raise: the node where they are has
    ``error``. ``budget``: what the tree may take, as for the functions below.
    """
    root = Node("request", "frame", 0, len(frame))
    try:
        key, version = peek(frame)
        header_version = request_header_version(key, version)
    except (DecodeError, UnknownApi) as error:
        return _broken(root, frame, 0, error)
    return _whole(
        root,
        frame,
        reference("RequestHeader", header_version),
        lambda: _body("request", key, version),
        budget,
    )


def dissect_response(
    frame: bytes, api_key: int, version: int, budget: Budget | None = None
) -> Node:
    """The tree of the response to a request of that key and version."""
    root = Node("response", "frame", 0, len(frame))
    try:
        header = reference("ResponseHeader", response_header_version(api_key, version))
    except UnknownApi as error:
        return _broken(root, frame, 0, error)
    tree = _whole(root, frame, header, lambda: _body("response", api_key, version), budget)
    if api_key != API_VERSIONS or tree.failure() is None:
        return tree
    fallback = _whole(
        Node("response", "frame", 0, len(frame)),
        frame,
        header,
        lambda: _body("response", api_key, FALLBACK_VERSION),
        budget,
    )
    return tree if fallback.failure() is not None else fallback


def dissect_metadata_record(value: bytes, budget: Budget | None = None) -> Node:
    """The tree of a record of the metadata log: frame version, type, version, body
    (``MetadataRecordSerde``).
    """
    root = Node("metadata record", "frame", 0, len(value))
    stream = io.BytesIO(value)
    prefix = []
    for name in ("frame version", "type", "version"):
        tree = ParseTree(name, "varint", stream.tell(), budget)
        try:
            number = UnsignedVarint.parse_stream(stream)
            _metadata_rule(name, number)
        except Refused as error:
            broken = DecodeError(error.reason, path=name, offset=tree.root.start, rule=error.rule)
            root.children.append(tree.finish(len(value), None, broken))
            return root
        prefix.append(number)
        root.children.append(tree.finish(stream.tell(), number, None))
    try:
        body = _body("metadata", prefix[1], prefix[2])
    except (UnknownApi, UnsupportedVersion) as error:
        return _broken(root, value, stream.tell(), error)
    root.children.append(body.dissect(value, stream.tell(), budget=budget))
    return root


def _metadata_rule(name: str, number: int) -> None:
    if name == "frame version" and number != 1:
        raise Refused(f"frame version {number}, only 1 is known", "frame-version")
    if number > 32767:
        raise Refused(f"{name} {number} is above 32767", "metadata-range")


def _whole(
    root: Node,
    frame: bytes,
    header: Reference,
    body: Callable[[], Reference],
    budget: Budget | None,
) -> Node:
    """Header, then body, as children of ``root``; servers and clients accept bytes behind the body,
    so they are shown and not refused.
    """
    head = header.dissect(frame, allow_trailing=True, budget=budget)
    root.children.append(head)
    if head.failure() is not None:
        return root
    try:
        codec = body()
    except (UnknownApi, UnsupportedVersion) as error:
        return _broken(root, frame, head.end, error)
    tree = codec.dissect(frame, head.end, allow_trailing=True, budget=budget)
    root.children.append(tree)
    if tree.end < len(frame):
        root.children.append(Node("left over", "bytes", tree.end, len(frame), frame[tree.end :]))
    return root


def _broken(root: Node, frame: bytes, at: int, error: Exception) -> Node:
    rule = "version" if isinstance(error, UnsupportedVersion) else "unknown-api"
    cause = (
        error if isinstance(error, DecodeError) else DecodeError(str(error), offset=at, rule=rule)
    )
    root.children.append(Node("undecoded", "bytes", at, len(frame), frame[at:], error=cause))
    return root


def _body(kind: str, key: int, version: int) -> Reference:
    return reference(name_by_key(kind, key), version)


def _declared(kind: str, api_key: int, version: int) -> int | None:
    declared = facts(name_by_key(kind, api_key)).get("headerVersions", {})
    return next((int(one) for text, one in declared.items() if version in span(text)), None)


def _flexible(kind: str, api_key: int) -> range:
    schema = facts(name_by_key(kind, api_key))
    if not valid_versions(schema):
        raise UnknownApi(f"{schema['name']} has no version any more")
    return span(schema["flexibleVersions"])
