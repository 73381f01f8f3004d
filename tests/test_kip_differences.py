"""The forms of the KIP texts: read from the texts again, compared with what shipped, checked
against generated code.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

import kwire
from kwire.codegen.model import Struct
from kwire.codegen.naming import json_name, snake
from kwire.codegen.schema import load_json, parse
from kwire.errors import DecodeError
from tests.shared import SHARED
from tools import kip_differences
from tools.facts.schemas import facts, render
from tools.kip_differences import (
    KIP,
    KIPS,
    PAGE,
    Difference,
    Pair,
    pairs,
    places,
    renew,
    shipped_path,
)

PAIRS = list(pairs())
SEEDS = SHARED / "seeds"
needs_texts = pytest.mark.skipif(
    not SEEDS.is_dir(), reason=f"the texts of the KIPs are not at {SEEDS}; set KWIRE_SHARED"
)


def _pair(name: str) -> Pair:
    return next(p for p in PAIRS if p.text.name == name)


def test_every_form_is_normalised_and_has_an_origin() -> None:
    origin = json.loads((KIP / "ORIGIN.json").read_text())
    files = {f"{kip}/{path.name}" for kip in KIPS for path in (KIP / kip).glob("*.json")}
    assert files == set(origin)
    for name in files:
        text = (KIP / name).read_text()
        raw = load_json(text, name)
        assert text == render(facts(raw)), name
        assert name.endswith(f"/{parse(raw, name).name}.json")


def test_renamed_fields_stand_on_both_sides() -> None:
    for pair in PAIRS:
        for old, new in pair.renamed.items():
            assert old in places(pair.text), (pair.text.name, old)
            assert new in places(pair.shipped), (pair.text.name, new)


def test_longest_renamed_prefix_decides() -> None:
    renamed = {
        "Topics": "Responses",
        "Topics.Partitions.Aborted": "Responses.Partitions.AbortedTransactions",
    }
    assert shipped_path("Topics.Name", renamed) == "Responses.Name"
    assert (
        shipped_path("Topics.Partitions.Aborted.ProducerId", renamed)
        == "Responses.Partitions.AbortedTransactions.ProducerId"
    )
    assert shipped_path("ThrottleTimeMs", renamed) == "ThrottleTimeMs"


# Known differences of the proposals; the page has the whole table.
EXPECTED = [
    (
        "FetchRequest",
        "Topics.FetchPartitions.LastFetchedEpoch | tag | tag 0, versions 12 | not tagged",
    ),
    (
        "FetchResponse",
        "Responses.Partitions.SnapshotId | only shipped |  | SnapshotId, versions 12+, tag 2",
    ),
    (
        "EndQuorumEpochRequest",
        "Topics.Partitions.ReplicaId | only in the text | int32, versions 0+ | ",
    ),
    ("LeaderChangeMessage", "VotedIds | type | []int32 | []struct"),
    ("QuorumStateMessage", "ClusterId | only shipped |  | string, versions 0"),
    ("BrokerRecord", "EndPoints.Port | type | int16 | uint16"),
    ("TopicRecord", "(message) | key | 1 | 2"),
    ("TopicRecord", "Deleting | only in the text | bool, versions 0+ | "),
    ("ConfigRecord", "Value | nullable | no | 0"),
    ("EnvelopeRequest", "RequestData | type | ApiMessage | bytes"),
    ("IncrementalAlterConfigsRequest", "ValidateOnly | only shipped |  | bool, versions 0+"),
    (
        "AlterIsrRequest",
        "Topics.Partitions.LeaderAndIsr.Leader | only in the text | int32, versions 0+ | ",
    ),
]


@pytest.mark.parametrize(("name", "row"), EXPECTED)
def test_the_table_has(name: str, row: str) -> None:
    assert Difference(*row.split(" | ")) in _pair(name).differences()


def test_the_same_message_has_no_difference() -> None:
    for pair in PAIRS:
        itself = Pair(pair.kip, pair.shipped, pair.shipped, {})
        assert itself.differences() == []
        assert itself.same_bytes() == list(pair.shipped.valid)


def test_fields_in_another_order_are_listed() -> None:
    field = '{"name": "%s", "type": "int8", "versions": "0+"}'
    head = (
        '{"type": "data", "name": "X", "validVersions": "0", "flexibleVersions": "none",'
        ' "fields": ['
    )
    one = parse(load_json(f"{head}{field % 'A'}, {field % 'B'}]}}", "one"), "one")
    other = parse(load_json(f"{head}{field % 'B'}, {field % 'A'}]}}", "other"), "other")
    assert Pair("595", one, other, {}).differences() == [
        Difference("B", "order", "after A", "before A")
    ]


def test_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == renew(page), "run python -m tools.kip_differences"
    print(f"{sum(len(p.differences()) for p in PAIRS)} differences in {len(PAIRS)} messages")


def test_an_old_page_fails_the_check(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        PAGE.read_text(encoding="utf-8").replace("LastFetchedEpoch", "Gone"), encoding="utf-8"
    )
    monkeypatch.setattr(kip_differences, "PAGE", page)
    run = CliRunner().invoke(kip_differences.main, ["--check"])
    assert run.exit_code == 1
    assert "run python -m tools.kip_differences" in run.output
    assert CliRunner().invoke(kip_differences.main, []).exit_code == 0
    assert "LastFetchedEpoch" in page.read_text(encoding="utf-8")


def _text_type(pair: Pair) -> type[kwire.Message]:
    module = importlib.import_module(f"kwire.messages.kip.kip{pair.kip}.{snake(pair.text.name)}")
    found: type[kwire.Message] = getattr(module, pair.text.name)
    return found


def _filled(struct: Struct, version: int) -> dict[str, Any]:
    """A JSON form in which every field of ``version`` differs from its default and every array has
    one element.
    """
    out: dict[str, Any] = {}
    for one in [*struct.at(version), *struct.tagged_at(version)]:
        if one.struct is not None:
            value: Any = _filled(one.struct, version)
        else:
            value = VALUES.get(one.type, 5)
        out[json_name(one.name)] = [value] if one.array else value
    return out


VALUES = {"string": "text", "bool": True, "uuid": "AAAAAAAAAAAAAAAAAAAABQ"} | dict.fromkeys(
    ("bytes", "records", "Header", "ApiMessage"), "AAEC"
)
WIRE = [(p, v) for p in PAIRS for v in p.text.valid & p.shipped.valid]


def _reads(data: bytes, as_type: type[kwire.Message], version: int) -> bool:
    """Does ``as_type`` read every byte as a field of its own and write the same bytes again?"""
    try:
        message = as_type.decode(data, version)
    except DecodeError:
        return False
    return message.encode(version) == data and not _unknown(message)


def _unknown(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_unknown, value))
    if not isinstance(value, kwire.message.Struct):
        return False
    return bool(value.unknown_tags) or any(
        _unknown(getattr(value, one.attr)) for one in value.fields()
    )


@pytest.mark.parametrize(("pair", "version"), WIRE, ids=[f"{p.text.name}-{v}" for p, v in WIRE])
def test_generated_code_agrees_with_the_verdict(pair: Pair, version: int) -> None:
    text, shipped = _text_type(pair), kwire.message_type(pair.shipped.name)
    of_text = text.from_json(_filled(pair.text.root, version), version).encode(version)
    of_shipped = shipped.from_json(_filled(pair.shipped.root, version), version).encode(version)
    assert _reads(of_text, text, version)
    assert _reads(of_shipped, shipped, version)
    each_reads_the_other = _reads(of_text, shipped, version) and _reads(of_shipped, text, version)
    assert each_reads_the_other == (version in pair.same_bytes())


REPAIRS = (
    (
        r"//[^\n\"]*(?=\n|\"(?:apiKey|validVersions)\")",
        "",
    ),  # comments; KIP-590 is one line, where a comment ends at a member
    (r'"versions" "12\+"', '"versions": "12+"'),
    (r', fields": \[', ', "fields": ['),
    (r"\]\} \]\}, \}$", "]} ]} ] }"),
    (r'"apiKey": N,', '"apiKey": -1,'),
    (r",(\s*[}\]])", r"\1"),
)


def _schemas_of(text: str) -> Iterator[dict[str, Any]]:
    """The schemas of a text, after the repairs that ORIGIN.json names."""
    for block in re.findall(
        r"^\{ .*\}$|^\{\s*\n(?s:.*?)^\}\s*$", text.replace("\xa0", " "), re.MULTILINE
    ):
        for pattern, better in REPAIRS:
            block = re.sub(pattern, better, block)
        yield json.loads(block)


@needs_texts
@pytest.mark.parametrize(("kip", "file", "count"), [("595", "000", 12), ("590", "002", 3)])
def test_forms_are_those_of_the_text(kip: str, file: str, count: int) -> None:
    (path,) = SEEDS.glob(f"{file}_*.txt")
    found = 0
    for raw in _schemas_of(path.read_text(encoding="utf-8")):
        of_text = load_json((KIP / kip / f"{raw['name']}.json").read_text(), raw["name"])
        of_shipped = {"flexibleVersions": "none", **facts(raw)}
        if of_shipped.get("apiKey") == -1:
            of_shipped["apiKey"] = _pair(raw["name"]).shipped.api_key
        assert of_text == of_shipped
        found += 1
    assert found == count == len(list((KIP / kip).glob("*.json")))


@needs_texts
@pytest.mark.parametrize("pair", [p for p in PAIRS if p.kip == "631"], ids=lambda p: p.text.name)
def test_reconstructed_records_stand_in_the_comparison(pair: Pair) -> None:
    # The comparison mixes removed and added words, so what it shows now must be a subsequence of
    # it.
    (path,) = SEEDS.glob("001_*.txt")
    text = re.sub(r"\s", "", path.read_text(encoding="utf-8").partition("Record Formats")[2])
    wanted = re.sub(r"\s", "", (KIP / "631" / f"{pair.text.name}.json").read_text())
    wanted = (
        wanted.replace('"flexibleVersions":"none",', "")
        .replace('"bool"', '"boolean"')
        .replace("}", "")
    )
    assert _is_subsequence(wanted, text), pair.text.name


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _is_subsequence(wanted: str, text: str) -> bool:
    at = 0
    for letter in wanted:
        at = text.find(letter, at) + 1
        if not at:
            return False
    return True


@needs_texts
def test_alter_isr_is_the_grammar_of_the_text() -> None:
    (path,) = SEEDS.glob("003_*.txt")
    grammar = path.read_text(encoding="utf-8")
    for pair in (p for p in PAIRS if p.kip == "497"):
        production = grammar.partition(f"{pair.text.name} => ")[2].partition("\n\n")[0]
        named = [_last(path) for path in places(pair.text)]
        assert re.findall(
            r"\w+",
            production.splitlines()[0]
            + production.partition("LeaderAndIsr =>")[2].partition("\n")[0],
        ) == [n for n in named if n not in ("Topics", "Partitions")]
        for name, kind in re.findall(
            r"^ +(\w+) => \[?(Int\d+|String)\]?$", production, re.MULTILINE
        ):
            assert {
                p.field.type for path, p in places(pair.text).items() if _last(path) == name
            } == {kind.lower()}
