"""``kwire dissect``: what goes in (hex, base64, files, captures, standard input) and what comes out
(tree, JSON lines).
"""

from __future__ import annotations

import base64
import itertools
import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.cli.dissect import Dissection  # type: ignore[attr-defined]
from gateway.cli.dissect_output import json_line, tree_text
from kwire.dissect.inside import hide_secrets, open_records
from kwire.errors import UnsupportedVersion
from kwire.reference import Budget, reference
from tests.gateway.cli.dissect_runs import (
    RECORD,
    VERSIONS_REQUEST,
    find,
    leaves,
    lines,
    request,
    run,
)
from tests.kwire.reference.pcaps import on_link, pcap, sized, talk
from tests.kwire.reference.test_capture import SEEN, TURNS
from tests.shared import needs_shared, vectors


def test_request_with_a_header_needs_no_options() -> None:
    result = run("--hex", VERSIONS_REQUEST, "-o", "tree")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[2:6] == [
        "     0-2      00 12                         RequestApiKey int16 = 18",
        "     2-4      00 00                         RequestApiVersion int16 = 0",
        "     4-8      00 00 00 07                   CorrelationId int32 = 7",
        '     8-13     00 03 66 6f 6f                ClientId string = "foo"',
    ]


def test_a_pipe_gets_json_lines() -> None:
    (line,) = lines(run("--hex", VERSIONS_REQUEST))
    assert line["ok"] is True
    assert find(line["tree"], "ClientId") == {
        "name": "ClientId",
        "type": "string",
        "start": 8,
        "end": 13,
        "value": "foo",
    }
    assert "hex" not in line


@pytest.mark.parametrize(
    "text", ["00:12:00:00:00:00:00:07:00:03:66:6f:6f", "0x0012 0000\n00000007 0003 666F6F"]
)
def test_hex_as_tools_print_it(text: str) -> None:
    assert leaves(lines(run("--hex", text))[0]["tree"])["CorrelationId"] == 7


def test_base64_of_both_alphabets() -> None:
    body = reference("SaslHandshakeRequest", 1).build({"Mechanism": "\xff\xfe?>\xff"})
    for text in (base64.b64encode(body), base64.urlsafe_b64encode(body).rstrip(b"=")):
        result = run(
            "--base64", text.decode(), "--message", "SaslHandshakeRequest", "--version", "1"
        )
        assert leaves(lines(result)[0]["tree"])["Mechanism"] == "\xff\xfe?>\xff"


def test_a_file_and_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "frame"
    path.write_bytes(bytes.fromhex(VERSIONS_REQUEST))
    assert (
        run(str(path)).stdout
        == run("-", stdin=path.read_bytes()).stdout
        == run("--hex", VERSIONS_REQUEST).stdout
    )


def test_frames_with_sizes_are_split() -> None:
    one = bytes.fromhex(VERSIONS_REQUEST)
    first, second = lines(run("-", stdin=sized(one) + sized(request("MetadataRequest", 9, {}))))
    assert find(first["tree"], "ClientId") == {
        "name": "ClientId",
        "type": "string",
        "start": 12,
        "end": 17,
        "value": "foo",
    }
    assert find(second["tree"], "MetadataRequest")["end"] == 17 + 4 + len(  # type: ignore[index]
        request("MetadataRequest", 9, {})
    )


def test_a_response_needs_api_and_version() -> None:
    frame = "00000007" + reference("ApiVersionsResponse", 0).build({"ErrorCode": 35}).hex()
    for api in ("ApiVersions", "18", "ApiVersionsResponse"):
        result = run("--hex", frame, "--response", "--api", api, "--version", "0")
        assert leaves(lines(result)[0]["tree"])["ErrorCode"] == 35
    assert "--api is missing" in run("--hex", frame, "--response").stderr
    assert "--version is missing" in run("--hex", frame, "--response", "--api", "18").stderr
    result = run("--hex", frame, "--response", "--api", "ApiVersion", "--version", "0")
    assert (result.exit_code, "no API is called 'ApiVersion'" in result.stderr) == (2, True)


def test_bodies_without_a_header() -> None:
    body = reference("MetadataRequest", 1).build({"Topics": [{"Name": "t"}]}).hex()
    result = run("--hex", body, "--api", "Metadata", "--version", "1", "--no-header")
    assert leaves(lines(result)[0]["tree"])["Name"] == "t"
    result = run("--hex", body, "--message", "MetadataRequest", "--version", "1")
    assert leaves(lines(result)[0]["tree"])["Name"] == "t"


def test_messages_of_a_design_text() -> None:
    body = reference("AlterIsrRequest", 0, "kip/497").build({"BrokerId": 3}).hex()
    result = run(
        "--hex", body, "--message", "AlterIsrRequest", "--version", "0", "--family", "kip/497"
    )
    assert leaves(lines(result)[0]["tree"])["BrokerId"] == 3
    assert run("--hex", body, "--message", "AlterIsrRequest", "--version", "0").exit_code == 2


def test_a_metadata_record() -> None:
    (line,) = lines(run("--hex", RECORD.hex(), "--metadata-record"))
    found = leaves(line["tree"])
    assert (found["type"], found["version"], found["Name"], found["FeatureLevel"]) == (
        12,
        0,
        "metadata.version",
        27,
    )


def test_bad_bytes_end_the_tree_and_the_exit_code_is_1() -> None:
    result = run("--hex", VERSIONS_REQUEST[:-2], "-o", "tree")
    assert result.exit_code == 1
    assert result.stdout.rstrip().endswith("! ClientId: 3 bytes wanted, 2 left (at byte 8)")
    (line,) = lines(run("--hex", VERSIONS_REQUEST[:-2]))
    assert line["ok"] is False
    error = find(line["tree"], "ClientId")["error"]  # type: ignore[index]
    assert error == {
        "reason": "3 bytes wanted, 2 left",
        "rule": "truncated",
        "path": "ClientId",
        "offset": 8,
    }


def test_bytes_left_over_are_shown() -> None:
    assert (
        "left over bytes = (redacted)"
        in run("--hex", VERSIONS_REQUEST + "ffff", "-o", "tree").stdout
    )
    result = run("--hex", VERSIONS_REQUEST + "ffff", "-o", "tree", "--show-secrets")
    assert result.exit_code == 0
    assert "left over bytes = 2 bytes: ff ff" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give the bytes once"),
        (("--hex", "00", "--base64", "AA"), "give the bytes once"),
        (("--hex", "0g"), "not hex"),
        (("--base64", "A"), "not base64"),
        (("--hex", "00", "--message", "NoSuchThing", "--version", "0"), "NoSuchThing"),
        (("--hex", "00", "--message", "FetchRequest", "--version", "99"), "4 to 18"),
        (("--hex", "00", "--message", "FetchRequest"), "--version is missing"),
        (("/no/such/file",), "No such file"),
    ],
)
def test_wrong_usage_is_reported_with_a_remedy(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([on_link(1, ip) for ip in talk(*TURNS)]))
    found = lines(run(str(path)))
    assert [
        (one["kind"], one["api"], one["version"], one["correlation_id"]) for one in found
    ] == SEEN
    assert found[0]["time"] == "2023-11-14T22:13:22.500000Z"
    assert (found[0]["source"], found[0]["target"]) == ("10.0.0.1:40000", "10.0.0.2:9092")
    only = lines(run(str(path), "--api", "Metadata", "--response", "--port", "9092"))
    assert [(one["kind"], one["correlation_id"]) for one in only] == [
        ("response", 3),
        ("response", 2),
    ]
    tree = run("-", "-o", "tree", stdin=path.read_bytes())
    assert tree.exit_code == 0
    headline = (
        "2023-11-14T22:13:22.500000Z  10.0.0.1:40000 -> 10.0.0.2:9092  request ApiVersions v3,"
        " correlation id 1"
    )
    assert tree.stdout.splitlines()[0] == headline


def test_a_damaged_capture() -> None:
    good = pcap([on_link(1, ip) for ip in talk(*TURNS)])
    result = run("-", stdin=good[:24] + b"\xff" * 40)
    assert result.exit_code == 1
    assert "the capture cannot be read" in result.stderr


def test_null_arrays_and_structs_are_null() -> None:
    frame = request("MetadataRequest", 9, {"Topics": None})
    topics = find(lines(run("--hex", frame.hex()))[0]["tree"], "Topics")
    assert topics is not None and topics["value"] is None
    assert "Topics []MetadataRequestTopic = null" in run("--hex", frame.hex(), "-o", "tree").stdout
    frame = request("DescribeTopicPartitionsRequest", 0, {"Cursor": None})
    cursor = find(lines(run("--hex", frame.hex()))[0]["tree"], "Cursor")
    assert cursor is not None and cursor["value"] is None


@needs_shared
def test_any_bytes_print_a_tree() -> None:
    """Broken and odd messages that Kafka was tried with: always a tree, always JSON, and never an
    exception.
    """
    for v in itertools.islice(
        itertools.chain(vectors("variants"), vectors("messages-mutants")), 0, None, 23
    ):
        try:
            codec = reference(v["api"], v["version"])
        except UnsupportedVersion:
            continue
        data = bytes.fromhex(v["hex"])
        tree = codec.dissect(data)
        failed = tree.failure()
        open_records(tree, Budget())
        hide_secrets(tree)
        found = Dissection(tree, data, Budget())
        assert ("! " in tree_text(found)) >= (failed is not None)
        assert json.loads(json_line(found, True))["ok"] == (tree.failure() is None)


def test_text_that_a_terminal_would_obey_is_escaped() -> None:
    frame = request("MetadataRequest", 9, {"Topics": [{"Name": "\x1b[2J\u202e\u2028evil"}]})
    text = run("--hex", frame.hex(), "-o", "tree").stdout
    assert "\x1b" not in text and "\u202e" not in text
    assert "\\u001b[2J" in text


def test_long_values_are_cut_in_the_tree_and_whole_in_json() -> None:
    frame = request("ListConfigResourcesRequest", 1, {"ResourceTypes": [7] * 40}).hex()
    assert (
        "[7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, ... 28 more]"
        in run("--hex", frame, "-o", "tree").stdout
    )
    types = find(lines(run("--hex", frame))[0]["tree"], "ResourceTypes")
    assert types is not None and [child.get("value") for child in types["children"][1:]] == [7] * 40
    frame = request("MetadataRequest", 9, {"Topics": [{"Name": "x" * 300}]}).hex()
    assert "... (302 characters)" in run("--hex", frame, "-o", "tree").stdout


def test_the_examples_of_the_help_work() -> None:
    text = run("--help").stdout
    examples = [
        line.strip() for line in text.splitlines() if line.strip().startswith("kwire dissect -")
    ]
    assert len(examples) >= 3
    for example in examples:
        arguments = shlex.split(example)[2:]
        if arguments[0] in ("--hex", "--base64"):
            result = run(*arguments)
            assert result.exit_code == 0, (example, result.output)


def test_unknown_api_is_wrong_usage_also_where_the_bytes_name_their_own() -> None:
    arguments = ["--api", "Nope", "--hex", "00120000000000070003666f6f"]
    result = CliRunner().invoke(main, ["dissect", *arguments])
    assert (result.exit_code, "no API is called 'Nope'" in result.stderr) == (2, True)
