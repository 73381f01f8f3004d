"""The rules that a schema must keep, one refusal each; and what the parser makes of good ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kwire.codegen.model import MAX_VERSION, NONE, SchemaError, Versions
from kwire.codegen.schema import load_json, parse, strip_comments
from kwire.header import request_header_version, response_header_version

SCHEMAS = sorted((Path(__file__).parents[3] / "schemas/kafka").glob("*.json"))


def request(*fields: Any, **changes: Any) -> dict[str, Any]:
    """A small request schema with ``fields``."""
    base: dict[str, Any] = {
        "apiKey": 1,
        "type": "request",
        "name": "SomeRequest",
        "validVersions": "0-3",
        "flexibleVersions": "2+",
        "fields": list(fields),
    }
    base.update(changes)
    return {k: v for k, v in base.items() if v is not ...}


def f(name: str = "A", type: str = "int32", versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "versions": versions, **more}


COMMON = {"name": "S", "versions": "0+", "fields": [f()]}


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        (request(name="not-a-name"), "letters and digits"),
        (request(type="query"), "type 'query' is none of"),
        (request(apiKey=...), "needs an apiKey"),
        (request(apiKey="one"), "apiKey 'one' is not a number"),
        (request(type="data"), "has no apiKey"),
        (request(type="response", listeners=["broker"]), "only requests have listeners"),
        (request(validVersions=...), "validVersions is missing"),
        (request(validVersions="3-1"), "not a range of versions"),
        (request(validVersions="x"), "validVersions"),
        (request(flexibleVersions="1-2"), "must be open-ended"),
        (request(flexibleVersions=...), "flexibleVersions is missing"),
        (request(unheardOf=1), "unknown member 'unheardOf'"),
        (request(headerVersions="0+"), "headerVersions is an object"),
        (request(headerVersions={}), "headerVersions is an object"),
        (request(headerVersions={"1": "1", "2+": "2"}), "without gaps: 0"),
        (request(headerVersions={"0": "1", "2+": "2"}), "without gaps: 1"),
        (request(headerVersions={"0-1": "1", "1+": "2"}), "without gaps: 2"),
        (request(headerVersions={"0-1": "1", "2": "2"}), "lack version 3"),
        (request(headerVersions={"none": "1", "0+": "1"}), "without gaps"),
        (request(headerVersions={"0-1": "1", "2+": "two"}), "'two' is no version"),
        (request(headerVersions={"0+": "1"}), "header version 1 does not fit flexibleVersions 2+"),
        (request(headerVersions={"0+": "2"}), "header version 2 does not fit flexibleVersions 2+"),
        (
            request(type="response", apiKey=18, headerVersions={"0-1": "0", "2+": "1"}),
            "header version 1 does not fit",
        ),
        (request(type="data", apiKey=..., headerVersions={"0+": "1"}), "headerVersions is an"),
        (request(f(), f("a")), "two fields share one name"),
        (request(f(type="int31")), "unknown type 'int31'"),
        (request(f(type="[][]int32")), "array of arrays"),
        (request(f(type="Missing")), "unknown struct 'Missing'"),
        (request(f(type="int32", fields=[])), "cannot have fields"),
        (request(f(versions=...) | {"versions": "none"}), "without versions"),  # type: ignore[arg-type]
        (request({"name": "A", "type": "int32"}), "versions is missing"),
        (request(f(nullableVersions="0+")), "cannot be nullable"),
        (request(f(type="string", default="null")), "default null needs nullableVersions"),
        (request(f(default="x")), "default 'x' does not fit"),
        (request(f(default=2**31)), "outside"),
        (request(f(type="bool", default="maybe")), "true or false"),
        (request(f(type="[]int32", default="1")), 'only "null" or nothing'),
        (request(f(tag=0)), "a tag without taggedVersions"),
        (request(f(taggedVersions="2+")), "taggedVersions without a tag"),
        (request(f(tag=0, taggedVersions="1+")), "must lie inside flexibleVersions"),
        (request(f(versions="3+", tag=0, taggedVersions="2+")), "must lie inside versions"),
        (request(f(tag=0, taggedVersions="2-3")), "must be open-ended"),
        (request(f(tag=1, taggedVersions="2+")), "without holes"),
        (
            request(f(tag=0, taggedVersions="2+"), f("B", tag=0, taggedVersions="2+")),
            "belongs to A already",
        ),
        (request(f(tag=-1, taggedVersions="2+")), "is not a number from 0"),
        (request(f(tag=0, taggedVersions="2+", mapKey=True)), "a map key cannot be a tagged field"),
        (request(f(zeroCopy=True)), "zeroCopy is for bytes"),
        (request(f(entityType="planet")), "unknown entityType"),
        (request(f(entityType="topicName")), "needs type string"),
        (request(f(ignorable="perhaps")), "true or false"),
        (request(f(type="S", fields=[f(mapKey=True)])), "only stand in an array"),
        (request(f(type="S", fields=[f()]), f("B", type="S")), "make it a common struct"),
        (request(f(type="S", fields=[f()]), f("B", type="[]S", fields=[f()])), "declared twice"),
        (request(f(type="S", fields=[f()]), commonStructs=[COMMON]), "among the common structs"),
        (
            request(commonStructs=[{"name": "S", "versions": "0+", "fields": [f(type="[]S")]}]),
            "contains itself",
        ),
        (request(commonStructs=[COMMON] * 2), "stands there twice"),
        (request(f() | {"extra": 1}), "unknown member 'extra'"),
        (request(fields={}), "fields is a list"),
        (request("A"), "a field is an object"),
    ],
)
def test_a_broken_rule_is_named(schema: dict[str, Any], rule: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(schema, "Some.json")
    assert rule in caught.value.rule
    assert str(caught.value).startswith("Some.json: ")


def test_the_path_of_the_field_is_named() -> None:
    with pytest.raises(SchemaError) as caught:
        parse(request(f(type="[]S", fields=[f("Inner", type="what")])), "x")
    assert caught.value.path == "SomeRequest.A.Inner"


def test_version_ranges_are_parsed_cut_and_shown() -> None:
    assert Versions.parse("3") == Versions(3, 3)
    assert Versions.parse("0-5") == Versions(0, 5)
    assert Versions.parse("2+") == Versions(2, MAX_VERSION)
    assert Versions.parse("none") == NONE
    assert not NONE
    assert Versions(2, 5) & Versions(4, 9) == Versions(4, 5)
    assert Versions(0, 1) & Versions(4, 9) == NONE
    assert [str(v) for v in (NONE, Versions(1, 1), Versions(1, 2), Versions(1, MAX_VERSION))] == [
        "none",
        "1",
        "1-2",
        "1+",
    ]
    for bad in ("", "-1", "1-", "5-3", "a", "40000"):
        with pytest.raises(ValueError, match=r"."):
            Versions.parse(bad)


def test_comments_are_blanked_outside_of_strings() -> None:
    text = '{ // one\n "a": "http://x", "b": "\\"//" // two "quoted\n}'
    assert strip_comments(text) == '{ \n "a": "http://x", "b": "\\"//" \n}'
    assert load_json(text, "x") == {"a": "http://x", "b": '"//'}


@pytest.mark.parametrize("text", ["", "[]", "{", "nonsense"])
def test_not_a_schema(text: str) -> None:
    with pytest.raises(SchemaError):
        load_json(text, "x.json")


def test_a_json_null_default_is_no_default() -> None:
    """Only the string "null" counts to Kafka."""
    nullable = {"type": "[]int32", "nullableVersions": "0+"}
    schema = parse(request(f(**nullable, default=None), f("B", **nullable, default="null")), "x")
    assert [field.default for field in schema.root.fields] == ["", None]


def test_defaults_of_every_type() -> None:
    cases = [
        ("int32", "0x7fffffff", 2**31 - 1),
        ("int64", "-1", -1),
        ("bool", "true", True),
        ("bool", True, True),
        ("string", "x", "x"),
        ("float64", "1.5", 1.5),
        ("uuid", "AAAAAAAAAAAAAAAAAAAAAQ", bytes(15) + b"\1"),
        ("uint32", 7, 7),
        ("records", "", None),
    ]
    for kind, text, value in cases:
        assert parse(request(f(type=kind, default=text)), "x").root.fields[0].default == value


def test_tagged_fields_without_versions_take_their_tagged_versions() -> None:
    schema = parse(request({"name": "A", "type": "int32", "tag": 0, "taggedVersions": "2+"}), "x")
    assert schema.root.fields[0].versions == Versions(2, MAX_VERSION)


def test_declared_headers_are_kept_by_their_first_versions() -> None:
    declared = {"2": "2", "3+": "3", "0-1": "1"}
    assert parse(request(headerVersions=declared), "x").headers == ((0, 1), (2, 2), (3, 3))
    answer = request(type="response", headerVersions={"0-1": 0, "2+": 1})
    assert parse(answer, "x").headers == ((0, 0), (2, 1))
    assert parse(request(), "x").headers == ()


@pytest.mark.parametrize("kind", ["request", "response"])
def test_headers_of_every_api_fit_its_flexible_versions(kind: str) -> None:
    """The versions that are computed today, declared as Kafka 4.5 declares them."""
    compute = request_header_version if kind == "request" else response_header_version
    schemas = [load_json(path.read_text(encoding="utf-8"), path.name) for path in SCHEMAS]
    apis = [one for one in schemas if one.get("type") == kind and one["validVersions"] != "none"]
    assert len(apis) > 80
    for api in apis:
        first = Versions.parse(api["validVersions"])
        by_version = [compute(api["apiKey"], version) for version in range(first.high + 1)]
        declared = {
            f"{version}+" if version == first.high else str(version): header
            for version, header in enumerate(by_version)
        }
        headers = parse({**api, "headerVersions": declared}, "x").headers
        assert [header for _, header in headers] == by_version
        wrong = {**declared, f"{first.high}+": by_version[-1] + 1 - 2 * (by_version[-1] % 2)}
        if kind == "response":
            with pytest.raises(SchemaError, match="does not fit"):
                parse({**api, "headerVersions": wrong}, "x")


def test_numbers_may_be_written_as_strings() -> None:
    """As in Kafka 3: ``"tag": "0"``."""
    schema = parse(request(f(tag="0", taggedVersions="2+"), apiKey="7"), "x")
    assert (schema.api_key, schema.root.fields[0].tag) == (7, 0)
