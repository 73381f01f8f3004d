"""The forms of a report."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest

from kwire.conformance.catalog import find_rule
from kwire.conformance.outcome import Outcome, Report, Result, RoundTrip
from kwire.conformance.output.as_json import report_json
from kwire.conformance.output.facts import matrix
from kwire.conformance.output.html import report_html
from kwire.conformance.output.junit import report_junit
from kwire.conformance.output.text import report_text, rule_list, rule_text
from kwire.conformance.rule import Role, Rule
from kwire.conformance.runner import mark_blocked
from kwire.header import encode_request_header
from kwire.messages.metadata_request import MetadataRequest
from kwire.protocol import ApiKey

_SAID = "the answer <has> 3 bytes\x1b too many"


def the_rule(rule_id: str) -> Rule:
    found = find_rule(rule_id)
    assert found is not None
    return found


@pytest.fixture
def report() -> Report:
    request = encode_request_header(3, 12, 7, "a") + MetadataRequest().encode(12)
    trip = RoundTrip(3, 12, request, b"\0\0\0\7\0\0", "a note")
    raw = RoundTrip(-1, -1, b"\xff\xff")
    results = [
        Result(the_rule("framing.size-zero"), Outcome.PASS, "", 0.25),
        Result(the_rule("framing.size-negative"), Outcome.TIMEOUT, "nothing came", 1.0, [raw]),
        Result(the_rule("schema.Metadata.v12.answered"), Outcome.FAIL, _SAID, 0.5, [trip]),
        Result(the_rule("schema.Metadata.v11.answered"), Outcome.PASS, "", 0.5),
        Result(the_rule("schema.Fetch.v4.answered"), Outcome.NOT_OFFERED, "not there"),
    ]
    return Report(
        "host:9092", frozenset({Role.BROKER}), {3: (0, 12)}, results, 2.0,
        command="kwire conform host:9092", remarks=["topic t could not be removed: gone"],
    )  # fmt: skip


def test_the_text_has_a_table_and_each_failure(report: Report) -> None:
    text = report_text(report)
    assert re.search(r"^framing +1 +- +- +1$", text, re.MULTILINE)
    assert "FAIL  schema.Metadata.v12.answered\n" in text
    assert "  again   kwire conform host:9092 --rule schema.Metadata.v12.answered\n" in text
    assert text.endswith(
        "topic t could not be removed: gone\n"
        "host:9092: broker: 2 pass, 1 fail, 1 not offered, 1 timeout; 2.0 s\n"
    )


def test_json_has_every_result_and_the_bytes_of_failures(report: Report) -> None:
    value = report_json(report)
    assert value["counts"] == {"pass": 2, "fail": 1, "timeout": 1, "not offered": 1}
    by_id = {line["rule"]: line for line in value["results"]}
    assert len(by_id) == 5
    assert by_id["schema.Metadata.v12.answered"]["roundTrips"][0]["received"] == "000000070000"
    assert by_id["framing.size-negative"]["roundTrips"][0]["received"] is None
    assert "roundTrips" not in by_id["framing.size-zero"]
    [row] = [row for row in value["matrix"] if row["api"] == "Metadata"]
    assert row["versions"]["12"] == "fail"


def test_the_matrix_has_the_worst_outcome_of_each_version(report: Report) -> None:
    cells = matrix(report)[ApiKey.METADATA]
    assert cells[12] is Outcome.FAIL
    assert cells[11] is Outcome.PASS
    assert cells[0] is Outcome.NOT_TRIED


def test_junit_has_a_case_for_each_rule(report: Report) -> None:
    root = ElementTree.fromstring(report_junit(report))
    assert len(root.findall(".//testcase")) == 5
    assert len(root.findall(".//failure")) == 2
    assert len(root.findall(".//skipped")) == 1
    suite = root.find("testsuite[@name='schema']")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")


def test_html_is_one_file_that_loads_nothing(report: Report) -> None:
    page = report_html(report)
    assert "the answer &lt;has&gt; 3 bytes" in page
    assert "schema.Metadata.v12.answered" in page
    assert 'title="Metadata v12: fail"' in page
    assert "AllowAutoTopicCreation" in page
    assert "ff ff" in page
    assert not re.search(r"(src|href=\"(?!#)|@import|url\()", page)


def test_a_rule_is_explained() -> None:
    text = rule_text(the_rule("api-versions.too-new"))
    assert "KIP-511" in text
    assert "since    Kafka 2.4" in text
    assert rule_list([the_rule("framing.size-zero")]) == (
        "framing.size-zero  must    A frame of size 0 closes the connection.\n"
    )


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([Outcome.PASS, Outcome.NOT_OFFERED], 0),
        ([Outcome.PASS, Outcome.DEVIATION, Outcome.ADVICE, Outcome.ALLOWED], 0),
        ([Outcome.PASS, Outcome.FAIL], 1),
        ([Outcome.TIMEOUT], 1),
        ([Outcome.PASS, Outcome.ERROR], 2),
        ([Outcome.FAIL, Outcome.ERROR], 1),
        ([Outcome.NO_LONGER_FAILS], 1),
    ],
)
def test_the_exit_status_follows_from_the_outcomes(outcomes: list[Outcome], status: int) -> None:
    rule = the_rule("framing.size-zero")
    report = Report("x:1", frozenset(), {}, [Result(rule, outcome) for outcome in outcomes])
    assert report.exit_status() == status


class _Page(HTMLParser):
    """Collects what a reader sees: the cells of the matrix, the cards, the counts."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: dict[str, str] = {}
        self.cards: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag not in ("meta",):
            self.open.append(tag)
        if tag == "td" and values.get("title"):
            cell, _, outcome = str(values["title"]).partition(": ")
            self.cells[cell] = outcome
            assert values["class"] == outcome.replace(" ", "-")
        if tag == "article":
            self.cards.append(str(values["id"]))

    def handle_endtag(self, tag: str) -> None:
        # A list's items and a paragraph end with what they are in.
        while self.open and self.open[-1] != tag:
            assert self.open.pop() in ("li", "p"), f"{tag} ends inside of {self.open[-3:]}"
        self.open.pop()


def test_html_shows_what_json_has(report: Report) -> None:
    page = _Page()
    page.feed(report_html(report))
    page.close()
    assert page.open == []
    value = report_json(report)
    cells = {
        f"{row['api']} v{version}": outcome
        for row in value["matrix"]
        for version, outcome in row["versions"].items()
        if outcome not in ("not offered", "not applicable")
    }
    assert page.cells == cells
    failed = [line["rule"] for line in value["results"] if "repeat" in line]
    assert page.cards == failed


def test_html_of_a_log_links_each_rule_once_and_has_no_matrix() -> None:
    rule = the_rule("log.references")
    found = [Result(rule, Outcome.FAIL, f"{file}.log at 0: wrong") for file in ("a", "b")]
    text = report_html(Report("a log", frozenset(), {}, found, 1.0))
    page = _Page()
    page.feed(text)
    page.close()
    assert page.cards == ["log.references", "log.references-2"]
    assert text.count('href="#log.references"') == 1
    assert "log.references</a> (2 times)" in text
    assert "<p>2 rules in 1.0 s" in text
    assert "APIs and versions" not in text


def test_html_of_a_client_says_what_it_sends() -> None:
    report = Report("a program", frozenset({Role.CLIENT}), {1: (12, 12)}, [], 1.0)
    text = report_html(report)
    assert "APIs and versions that the program sends" in text
    assert "empty: not sent" in text


def unreadable(rule_id: str, version: int = 12, outcome: Outcome = Outcome.FAIL) -> Result:
    return Result(the_rule(rule_id), outcome, _SAID, unreadable=(ApiKey.METADATA, version))


def blocked_report() -> Report:
    results = [
        unreadable("fetch.from-the-start"),
        unreadable("schema.Metadata.v12.answered"),
        unreadable("fetch.batches-decode"),
        unreadable("metadata.cluster-id", outcome=Outcome.ADVICE),
        Result(the_rule("fetch.offsets-ascend"), Outcome.FAIL, "offset 3 follows 4"),
    ]
    mark_blocked(results)
    return Report("host:9092", frozenset({Role.BROKER}), {3: (0, 12)}, results)


def test_blocked_rules_are_counted_under_the_rule_that_names_the_fault_in_every_form() -> None:
    report, cause = blocked_report(), "schema.Metadata.v12.answered"
    assert [one.rule.id for one in report.failures()] == [cause, "fetch.offsets-ascend"]
    said = f"1 cause, blocks 3 rules: answers to Metadata cannot be read (see {cause})"
    text = report_text(report)
    assert text.startswith(f"{said}\n\n")
    assert "  blocks  fetch.from-the-start, fetch.batches-decode, metadata.cluster-id\n" in text
    assert "BLOCKED" not in text and "2 fail, 3 blocked; " in text
    page = report_html(report)
    assert said in page and "This blocks 3 other rules." in page
    assert page.count(f'(blocked by <a href="#{cause}">') == 3
    values = report_json(report)
    assert values["blocked"] == said and values["results"][0]["blockedBy"] == cause
    cases = ElementTree.fromstring(report_junit(report)).findall(".//testcase/skipped")
    assert len(cases) == 3 and f"(blocked by {cause})" in cases[0].attrib["message"]
    assert report.exit_status() == 1


@pytest.mark.parametrize(
    "results",
    [
        # No rule about Metadata was run, or it is known to fail, or it fails otherwise.
        [unreadable("fetch.from-the-start"), unreadable("fetch.batches-decode")],
        [
            unreadable("fetch.from-the-start"),
            unreadable("schema.Metadata.v12.answered", outcome=Outcome.ALLOWED),
        ],
        [
            unreadable("fetch.from-the-start"),
            Result(the_rule("schema.Metadata.v12.answered"), Outcome.FAIL, "closed"),
        ],
        [unreadable("schema.Metadata.v12.answered"), unreadable("schema.Metadata.v12.truncated")],
    ],
)
def test_failures_stay_where_no_other_rule_names_their_fault(results: list[Result]) -> None:
    before = [result.outcome for result in results]
    mark_blocked(results)
    assert [result.outcome for result in results] == before


def test_rule_of_the_same_api_names_the_fault_where_no_rule_has_its_version() -> None:
    results = [unreadable("fetch.from-the-start"), unreadable("metadata.cluster-id")]
    mark_blocked(results)
    assert [one.outcome for one in results] == [Outcome.BLOCKED, Outcome.FAIL]
    assert results[0].blocked_by == "metadata.cluster-id"
