"""Regular expressions of subscriptions are valid, and match, where RE2/J says so."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gateway.groups.consumer.regex import Regex
from gateway.groups.consumer.regex_syntax import RegexError
from tests.interop.java_source import run_source

pytestmark = pytest.mark.interop

_ASK = Path(__file__).with_name("AskRegexes.java")
_PARTS = (
    *"aab1_.-(|)*+?^$[]{},\\",
    "[a-c]", "[^ab]", "[[:alpha:]]", "[[:^digit:]a]", "[]a]", "[^]", "[a-", "[b-a]", "[\\d-x]",
    "a{2}", "a{1,3}", "{2,1}", "{1001}", "{,2}", "{2", "b{0,}", "b{02}", "(?:", "(?i)", "(?i:",
    "(?-i)", "(?s", "(?P<n>", "(?<m>", "(?=", "(?i-)", "\\d", "\\W", "\\w", "\\b", "\\B", "\\A",
    "\\z", "\\Z", "\\Qa*\\E", "\\Q", "\\pL", "\\p{Lu}", "\\P{Nd}", "\\p{^Greek}", "\\p{Foo}",
    "\\x61", "\\x{42}", "\\x{1", "\\141", "\\1", "\\8", "\\.", "\\_", "\\e", "A", "B", "\u212a",
    "k", "[\u017f-\u0180]", "s", "*?", "+?", "??", "**", "||", "()",
)  # fmt: skip
_NAMES = (
    "a", "aa", "aaa", "b", "ab", "ba", "a1", "A", "B", "AB", "a.b", "a-b", "_", "a_b", "1", "k",
    "K", "s", "S", "aab", "b1", "x", "bb", "aB",
)  # fmt: skip


def test_random_expressions_match_as_in_kafka() -> None:
    chance = random.Random(2)
    regexes = [*_PARTS]
    for _ in range(4000):
        regexes.append("".join(chance.choice(_PARTS) for _ in range(chance.randrange(1, 6))))
    names = " ".join(name.encode().hex() for name in _NAMES)
    given = "".join(f"{regex.encode().hex()} {names}\n" for regex in regexes)
    said = run_source(_ASK, given=given).splitlines()
    for regex, expected in zip(regexes, said, strict=True):
        assert _answer(regex) == expected, regex


def _answer(text: str) -> str:
    try:
        regex = Regex(text)
    except RegexError:
        return "invalid"
    return "valid" + "".join(" 1" if regex.matches(name) else " 0" for name in _NAMES)
