"""Records, secrets and Envelope requests inside the messages that ``kwire dissect`` prints."""

from __future__ import annotations

import re

import pytest

from kwire.records import Compression, Record, encode_batch
from kwire.reference import reference
from tests.gateway.cli.dissect_runs import (
    RECORD,
    find,
    leaves,
    lines,
    request,
    run,
)


def fetch_answer(compression: str) -> str:
    """A Fetch answer, in hex, whose records are two metadata records: one plain, one with SCRAM
    keys.
    """
    secret = reference("UserScramCredentialRecord", 0).build(
        {"Name": "u", "Salt": b"pepper", "StoredKey": b"stored", "ServerKey": b"server"}
    )
    values = [RECORD, b"\x01\x0b\x00" + secret, b"not a metadata record", None]
    batch = encode_batch(
        [Record(offset=n, timestamp=5, value=value) for n, value in enumerate(values)],
        compression=Compression[compression],
    )
    body = {"Responses": [{"Topic": "t", "Partitions": [{"Records": batch}]}]}
    return "00000007" + reference("FetchResponse", 11).build(body).hex()


@pytest.mark.parametrize("compression", ["NONE", "GZIP"])
def test_records_inside_are_opened_and_secrets_hidden(compression: str) -> None:
    arguments = (
        "--hex",
        fetch_answer(compression),
        "--response",
        "--api",
        "Fetch",
        "--version",
        "11",
        "--records",
    )
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    tree = lines(result)[0]["tree"]
    record = find(tree, "FeatureLevelRecord")
    assert record is not None and leaves(record)["FeatureLevel"] == 27
    if compression == "NONE":
        raw = bytes.fromhex(fetch_answer(compression))
        name = find(record, "Name")
        assert name is not None and raw[name["start"] : name["end"]] == b"\x11metadata.version"
    scram = find(tree, "UserScramCredentialRecord")
    assert scram is not None
    assert {leaves(scram)[name] for name in ("Salt", "StoredKey", "ServerKey")} == {"(redacted)"}
    for hidden in (b"pepper", b"stored", b"server"):
        for output in ("json", "tree"):
            text = run(*arguments, "-o", output).stdout
            assert hidden.hex() not in text and hidden.hex(" ") not in text
    shown = lines(run(*arguments, "--show-secrets"))[0]
    assert leaves(find(shown["tree"], "UserScramCredentialRecord"))["Salt"] == b"pepper".hex()  # type: ignore[arg-type]
    assert shown["hex"] == fetch_answer(compression)


def test_records_that_cannot_be_read_are_reported() -> None:
    raw = bytearray.fromhex(fetch_answer("NONE"))
    raw[-3] ^= 1
    arguments = (
        "--hex",
        raw.hex(),
        "--response",
        "--api",
        "Fetch",
        "--version",
        "11",
        "--records",
        "-o",
        "tree",
    )
    result = run(*arguments)
    assert result.exit_code == 1
    assert re.search(r"batch undecoded\n.*! .*CRC", result.stdout, re.IGNORECASE)


def test_passwords_of_sasl_and_configs_are_hidden() -> None:
    sasl = request("SaslAuthenticateRequest", 2, {"AuthBytes": b"\0user\0swordfish"})
    config = {"Name": "ssl.key.password", "Value": "swordfish"}
    plain = {"Name": "segment.bytes", "Value": "1024"}
    alter = request(
        "IncrementalAlterConfigsRequest",
        1,
        {"Resources": [{"ResourceType": 2, "Configs": [config, plain]}]},
    )
    for frame in (sasl, alter):
        for output in ("json", "tree"):
            text = run("--hex", frame.hex(), "-o", output).stdout
            assert (
                "swordfish" not in text
                and b"swordfish".hex() not in text
                and b"sword".hex(" ") not in text
            )
            assert "(redacted)" in text
        shown = run("--hex", frame.hex(), "--show-secrets").stdout
        assert "swordfish" in shown or b"swordfish".hex() in shown
    assert "1024" in run("--hex", alter.hex()).stdout


def test_token_of_sasl_without_a_header_is_hidden() -> None:
    token = b"\0b\0swordfish"
    for output in ("json", "tree"):
        text = run("--hex", token.hex(), "-o", output).stdout
        assert b"sword".hex(" ") not in text and b"sword".hex() not in text
    assert b"sword".hex(" ") in run("--hex", token.hex(), "-o", "tree", "--show-secrets").stdout


def test_a_password_that_is_cut_off_is_hidden_too() -> None:
    config = {"Name": "ssl.key.password", "Value": "swordfish"}
    frame = request("AlterConfigsRequest", 2, {"Resources": [{"Configs": [config]}]})
    cut = frame[: frame.index(b"swordfish") + 6]
    result = run("--hex", cut.hex(), "-o", "tree")
    assert result.exit_code == 1
    assert b"sword".hex(" ") not in result.stdout
    assert b"sword".hex(" ") in run("--hex", cut.hex(), "-o", "tree", "--show-secrets").stdout


def test_an_envelope_holds_a_request() -> None:
    inner = request("MetadataRequest", 9, {"Topics": [{"Name": "inside"}]})
    frame = request(
        "EnvelopeRequest", 0, {"RequestData": inner, "ClientHostAddress": b"\x7f\0\0\1"}
    )
    tree = lines(run("--hex", frame.hex(), "--records"))[0]["tree"]
    name = find(tree, "MetadataRequest")
    assert name is not None and leaves(name)["Name"] == "inside"
    assert frame[name["start"] : name["end"]] == reference("MetadataRequest", 9).build(
        {"Topics": [{"Name": "inside"}]}
    )
