"""Runs ``kwire dissect`` and reads its output, for its tests."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from gateway.cli.dissect import command
from kwire.reference import reference
from kwire.reference.frames import request_header_version

#: FeatureLevelRecord: metadata.version 27.
RECORD = bytes.fromhex("010c0011") + b"metadata.version" + bytes.fromhex("001b00")
VERSIONS_REQUEST = "00120000000000070003666f6f"


def run(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(command, arguments, input=stdin)


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def leaves(tree: dict[str, Any]) -> dict[str, Any]:
    """The value of every leaf by its name; later ones win."""
    if "children" not in tree:
        return {tree["name"]: tree.get("value")}
    return {name: value for child in tree["children"] for name, value in leaves(child).items()}


def find(tree: dict[str, Any], name: str) -> dict[str, Any] | None:
    if tree["name"] == name:
        return tree
    return next((found for child in tree.get("children", ()) if (found := find(child, name))), None)


def request(name: str, version: int, body: dict[str, Any]) -> bytes:
    """A request with its header, without its size."""
    codec = reference(name, version)
    key = codec.schema["apiKey"]
    header = {
        "RequestApiKey": key,
        "RequestApiVersion": version,
        "CorrelationId": 5,
        "ClientId": "c",
    }
    return reference("RequestHeader", request_header_version(key, version)).build(
        header
    ) + codec.build(body)
