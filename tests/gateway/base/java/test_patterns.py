"""Regular expressions are judged as Java judges them. The verdicts are those of Java 17, which
``tests/interop/test_text_as_kafka.py`` asks.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.java.patterns import compile_pattern, pattern_fault


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "a|b", r"\p{L}+", r"\pL", r"\P{IsLatin}", r"\p{gc=Lu}", "(?<name>x)\\k<name>"),
        *(
            "[a-z&&[^b]]",
            "[]a]",
            "[^]]",
            "[a&&]",
            "a{2,3}+",
            "{2}",
            "x{2}{3}",
            "^*",
            "(?i)x",
            "(?=a)*",
        ),
        *(r"\Q(*\E+", r"\Q[", r"\x{10FFFF}", r"\0377", r"\cA", "(?<=ab{1,3})c", r"\1", "}", "]"),
    ],
)
def test_pattern_of_java_is_taken(pattern: str) -> None:
    assert pattern_fault(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?P<n>x)", "unknown kind of group"),
        ("(?P=n)", "unknown kind of group"),
        ("(?x)a b", "flag that is not supported"),
        ("(?<n1_>x)", "without a name"),
        ("(?<n>x)(?<n>y)", "second group of the name n"),
        (r"\k<n>(?<n>x)", "no group before it"),
        ("a**", "without anything to repeat at character 3"),
        ("a{,2}", "without a number"),
        ("a{3,1}", "impossible number"),
        (f"a{{{'9' * 30_000}}}", "impossible number"),
        ("{", "without a number"),
        ("[a", "not closed"),
        ("[]", "not closed"),
        ("[z-a]", "ends before it begins"),
        (r"[a-\d]", "ends before it begins"),
        ("[&&]", "intersection of nothing"),
        ("(a", "not closed"),
        ("a)", "without an opening one"),
        (r"\p{Nope}", "unknown property Nope"),
        (r"\p{L", "not closed"),
        (r"\y", "unknown escape"),
        ("\\", "unknown escape"),
        (r"\x{110000}", "no character has"),
        ("(?<=a*)b", "look-behind"),
        ("(" * 20_000, "too many groups"),
        ("[" * 20_000, "too many classes"),
    ],
)
def test_pattern_that_java_refuses_is_refused_with_its_place(pattern: str, why: str) -> None:
    assert why in (pattern_fault(pattern) or "")


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"\d+", "\u0661", False),
        (r"\w+", "é", False),
        (r"CN=.*", "CN=a\u2028b", False),
        ("a$.*", "a\u2028", False),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        (r"(?<n>a)\k<n>", "aa", True),
        (r"\x{61}\07", "a\a", True),
    ],
)
def test_compiled_pattern_matches_as_in_java(pattern: str, text: str, matches: bool) -> None:
    assert (compile_pattern(pattern).fullmatch(text) is not None) == matches


@pytest.mark.parametrize(
    "pattern", [r"\p{L}", "[a[b]]", "[a&&b]", r"\h", r"\Z", "(?s).", "{2}", "a)"]
)
def test_pattern_that_python_reads_differently_is_not_compiled(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"not supported|opening"):
        compile_pattern(pattern)


@given(st.text(alphabet=r"ab01\^$.|?*+()[]{}-&<>=!:,pPQEkdxucniLé", max_size=20))
def test_any_text_is_a_pattern_or_a_fault(text: str) -> None:
    if pattern_fault(text) is not None:
        with pytest.raises(ValueError):
            compile_pattern(text)
