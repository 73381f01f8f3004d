"""Regular expressions match whole topic names, and cannot take more time than is bounded."""

from __future__ import annotations

import pytest

from gateway.base.slices import run
from gateway.groups.consumer import regex as module
from gateway.groups.consumer.regex import Regex, matching, regex_fault


@pytest.mark.parametrize(
    ("expression", "names", "others"),
    [
        ("orders", ["orders"], ["orders-1", "my-orders"]),
        ("a|bc", ["a", "bc"], ["ab", "c"]),
        ("[^a-c._]+", ["xyz"], ["xa", "x.", ""]),
        ("(?i)ab[c-d]", ["ABC", "abD"], ["abe"]),
        (r"t\d{2,3}", ["t12", "t123"], ["t1", "t1234"]),
        (r"\Qa.b\E.*", ["a.b", "a.b-1"], ["axb"]),
        (r".*\bx\b.*", ["a-x-b", "x"], ["axb"]),
        (r"\p{Lu}\PL*", ["A1", "B"], ["a1", "AA"]),
        ("", [""], ["a"]),
    ],
)
def test_expression_matches_whole_names(
    expression: str, names: list[str], others: list[str]
) -> None:
    compiled = Regex(expression)
    assert [name for name in [*names, *others] if compiled.matches(name)] == names


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("[a", "missing closing ]: `[a`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{1000}){1000}", "expression too large: `(a{1000}){1000}`"),
        ("(" * 200, None),
    ],
)
def test_fault_says_what_is_wrong(expression: str, fault: str | None) -> None:
    found = regex_fault(expression)
    assert found is not None
    assert fault is None or found == fault


def test_work_of_an_expression_does_not_grow_with_the_ways_to_match() -> None:
    name = "a" * 249
    assert not run(matching(["(a+)+b", "(a|a)*b"], [name]))["(a+)+b"]


def test_expression_that_takes_too_long_matches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORK_MAX", 100)
    found = run(matching(["a.*", "b"], ["b", *(f"a{number}" for number in range(100))]))
    assert found == {"a.*": set(), "b": {"b"}}
