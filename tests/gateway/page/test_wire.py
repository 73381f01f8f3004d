"""Bytes that the page dissects, and its list of APIs and fields."""

from __future__ import annotations

import json

import pytest

import kwire
from gateway.page import wire
from gateway.page.wire import BadInput, api, apis, captured, dissected
from kwire.header import encode_request_header
from kwire.messages import BY_KEY
from kwire.messages.create_topics_request import CreateTopicsRequest
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.protocol import ApiKey
from tests.kwire.reference.pcaps import on_link, pcap, talk
from tests.kwire.reference.test_capture import SEEN, TURNS

VERSIONS_REQUEST = "00120000000000070003666f6f"


def test_a_request_names_its_api_itself() -> None:
    found = dissected({"hex": VERSIONS_REQUEST, "kind": "request"})
    assert found["ok"] and found["bytes"] == 13
    header = found["tree"]["children"][0]
    assert header["children"][0]["value"] == 18


@pytest.mark.parametrize(
    "text", ["00 12\n00:00 00 00 00 07 00 03 66 6f 6f", "0000000d" + VERSIONS_REQUEST]
)
def test_blanks_colons_and_the_size_are_passed_over(text: str) -> None:
    assert dissected({"hex": text, "kind": "request"})["bytes"] == 13


def test_a_response_needs_api_and_version() -> None:
    asked = {"hex": "00000007000000000000", "kind": "response", "api": 18, "version": 0}
    assert dissected(asked)["ok"]
    with pytest.raises(BadInput):
        dissected({"hex": "00000007", "kind": "response"})


def test_damaged_bytes_are_shown_up_to_the_fault() -> None:
    found = dissected({"hex": VERSIONS_REQUEST[:-2], "kind": "request"})
    assert not found["ok"]
    assert "error" in json.dumps(found["tree"])


def test_secrets_are_hidden() -> None:
    request = SaslAuthenticateRequest(auth_bytes=b"\0alice\0password")
    frame = encode_request_header(36, 2, 7, "x") + request.encode(2)
    text = json.dumps(dissected({"hex": frame.hex(), "kind": "request"}))
    assert b"password".hex() not in text and "password" not in text


@pytest.mark.parametrize("text", ["", "xy", "0", None, 7, "00" * (wire.BYTES_MAX + 1)])
def test_other_input_is_refused(text: object) -> None:
    with pytest.raises(BadInput):
        dissected({"hex": text, "kind": "request"})


def test_a_tree_of_too_many_fields_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "NODES_MAX", 3)
    with pytest.raises(BadInput, match="kwire dissect"):
        dissected({"hex": VERSIONS_REQUEST, "kind": "request"})


def test_every_api_and_version_has_its_fields() -> None:
    listed = {one["key"]: one for one in apis()}
    messages = {
        key: kwire.message_type(name) for (kind, key), name in BY_KEY.items() if kind == "request"
    }
    assert listed.keys() == {key for key, message in messages.items() if len(message.VERSIONS)}
    for key, one in listed.items():
        versions = messages[key].VERSIONS
        assert (one["first"], one["last"]) == (versions[0], versions[-1])
        for version in versions:
            assert api(key, version).keys() == {"request", "response"}


def test_fields_are_those_of_the_version() -> None:
    def names(version: int) -> list[str]:
        return [field["name"] for field in api(ApiKey.CREATE_TOPICS, version)["response"]]

    assert "TopicId" not in names(6) and "TopicId" in names(7)
    fields = api(ApiKey.CREATE_TOPICS, CreateTopicsRequest.VERSIONS[-1])["request"]
    assert {"depth": 1, "name": "Name", "type": "string", "tag": None, "nullable": False} in fields


@pytest.mark.parametrize(("key", "version"), [(999, 0), (18, 99)])
def test_unknown_api_or_version_is_refused(key: int, version: int) -> None:
    with pytest.raises(BadInput):
        api(key, version)


def capture() -> bytes:
    """A conversation of several requests and responses."""
    return pcap([on_link(1, packet) for packet in talk(*TURNS)])


def test_frames_of_a_capture_are_shown() -> None:
    found = captured(capture())
    assert not found["more"] and len(found["frames"]) == len(SEEN)
    kind, name, version, correlation_id = SEEN[0]
    first = found["frames"][0]
    assert first["title"] == f"{kind} {name} v{version}, {correlation_id}"
    assert first["ok"] and first["source"] == "10.0.0.1:40000"


@pytest.mark.parametrize("limit", ["FRAMES_MAX", "NODES_MAX"])
def test_long_capture_ends_with_more(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, limit, 1)
    found = captured(capture())
    assert found["more"] and len(found["frames"]) <= 1


@pytest.mark.parametrize(
    "data", [b"", b"no capture at all", capture()[:4], capture()[:4] + b"x" * 99]
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match="capture"):
        captured(data)
