"""Asks Kafka's own code about texts, and kwire: values of every configuration key, regular
expressions, mapping rules of principals.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import pytest

from gateway.base.java.patterns import pattern_fault
from gateway.controller.configs.broker_keys import BROKER_KEYS
from gateway.controller.configs.client_metrics_keys import CLIENT_METRICS_KEYS, INTERVAL_MS
from gateway.controller.configs.config_def import ConfigError, ConfigKey, ConfigType, written
from gateway.controller.configs.group_keys import GROUP_KEYS
from gateway.controller.configs.topic_keys import TOPIC_KEYS
from gateway.security.principal_rules import PrincipalRules
from tests.interop.clients import need_java
from tests.interop.java_source import INVALID, UNKNOWN, ask_kafka

pytestmark = pytest.mark.interop

KINDS: Final = {
    "topic": TOPIC_KEYS,
    "group": GROUP_KEYS,
    "metrics": CLIENT_METRICS_KEYS,
    "broker": BROKER_KEYS,
}
#: Blanks of ASCII and beyond, control characters, and characters without a width.
BLANKS: Final = (
    "\0\x01\x1c\x1f \t\n\x0b\x0c\r\x7f\x85\xa0\u1680\u2003\u200b\u2028\u202f\u205f\u3000\ufeff"
)
#: The zeros of five scripts; Java's numbers know those of the first 65,536 characters.
ZEROS: Final = (0x660, 0x6F0, 0x966, 0xFF10, 0x1D7CE)
VALUES: Final = {
    ConfigType.BOOLEAN: ("TRUE", "fal\u017fe", "yes", "True\0"),
    ConfigType.INT: ("+5", "-0", "5.0", "1_000", "9" * 20, "0" * 70 + "1", "\uff0b5"),
    ConfigType.SHORT: ("32767", "32768", "+1"),
    ConfigType.LONG: ("+5", "1_000", "5L", "9223372036854775808", "\u22125"),
    ConfigType.DOUBLE: ("0.5d", "0x1p-1", "0X.8P0f", "NaN", "nan", "1_0.0", "1e", "1.", "0,5"),
    ConfigType.LIST: (
        "a,b",
        "a,a",
        "delete,delete",
        "a, b",
        ",a",
        "a,",
        "a,,b",
        ",",
        "*",
        "0:1,,1:1",
        "0:1,0:1",
        "0:1, *",
    ),
    ConfigType.STRING: ("", "x"),
}
_PATTERNS: Final = r"""
    a b z 0 1 9 . ^ $ | ( ) (?: (?= (?! (?> (?<= (?<! (?<n> (?<m1> (?P<n> (?i) (?i-s: (?-) (? * + ?
    ?? *+ { } {2} {1,3} {2,} {3,1} {,2} [ ] [^ - && & \ \d \w \S \h \v \R \X \b \b{g} \B \A \z \Z \G
    \k<n> \k \1 \8 \0 \07 \0377 \08 \x41 \x{10FFFF} \x{110000} \x4 \u0041 \u00 \cA \c \p{L} \pL \pX
    \P{Lu} \p{IsLatin} \p{IsAlphabetic} \p{script=Latin} \p{gc=Lu} \p{isL} \p{ \Q \E \Qx*\E \N \y \_
    \- \n \a \e # , = : < > ! é [a-z] [a-z&&[^b]] []a] [^]a] a-z z-a \d-z a-\d [[:alpha:]]
"""
PATTERNS: Final = _PATTERNS.split()
RULES: Final = (
    "RULE:.*/x/",
    "RULE:^CN=(?<n>.*?),.*$/${n}/",
    "RULE:^CN=(.*?),(.*)$/$12-$2$9/",
    r"RULE:^(\w+)=(.*)$/$2/U",
    "RULE:(?P<n>.*)/a/",
    r"RULE:^CN=(.+),O=(.+)$/$1 \$ $2/L",
    "RULE:CN=./x/,DEFAULT",
    "RULE:(?i)^cn=(.*)$/$1/",
    r"RULE:^CN=(\S+?),O=(\d+)$/$1/",
    r"RULE:^CN=(a[b]{1,2}c|\Qa.b\E),.*$/$1/",
    "RULE:[^=]*+=([^,]*+).*/$1/",
    "RULE:^CN=.*$/$1/",
    "RULE:^CN=(.*)$/$1/\xa0",
)
SUBJECTS: Final = (
    "CN=Duke,O=Org",
    "CN=é,O=1",
    "CN=a.b,O=12",
    "CN=ab\u2028c,O=1",
    "CN=x,O=\u0661",
    "CN=\u017f\n",
    "cn=\u212a,O=K",
)


def mutated(value: str) -> Iterator[str]:
    """The value, and near ones that a reader may take for it."""
    yield from (value, value.upper(), value.replace("s", "\u017f"), value[:1] + "_" + value[1:])
    for blank in BLANKS:
        yield from (blank + value, value + blank, value[:1] + blank + value[1:])
        yield from (value.replace(",", f",{blank}"), value.replace(",", f"{blank},"))
    for zero in ZEROS:
        yield value.translate({ord("0") + digit: zero + digit for digit in range(10)})


def texts(key: ConfigKey) -> Iterator[str]:
    for value in (
        key.default or "",
        *key.choices,
        ",".join(key.choices),
        *VALUES.get(key.type, ()),
    ):
        yield from mutated(value)


def judged(key: ConfigKey, text: str) -> tuple[str, str]:
    try:
        value = key.parse(text)
    except ConfigError:
        return INVALID, ""
    # The one key whose limits are not in its definition.
    if key is CLIENT_METRICS_KEYS["interval.ms"] and value not in INTERVAL_MS:
        return INVALID, ""
    return "valid", "[hidden]" if key.type is ConfigType.PASSWORD else written(value)


def test_values_of_every_key_are_taken_and_refused_as_in_kafka() -> None:
    need_java()
    asked = [
        (kind, key, text)
        for kind, keys in KINDS.items()
        for key in keys.values()
        # Kafka loads the class that such a value names.
        if key.type is not ConfigType.CLASS
        for text in dict.fromkeys(texts(key))
    ]
    kafkas = ask_kafka((kind, key.name, text) for kind, key, text in asked)
    pairs = [(one, kafka) for one, kafka in zip(asked, kafkas, strict=True) if kafka[0] != UNKNOWN]
    unlike = [
        (kind, key.name, text, kafka)
        for (kind, key, text), kafka in pairs
        if judged(key, text) != kafka
    ]
    assert len(pairs) > 20_000 and sum(kafka[0] == INVALID for _, kafka in pairs) > len(pairs) / 5
    assert not unlike[:20]


def test_no_pattern_is_taken_that_java_refuses() -> None:
    need_java()
    rand = random.Random(1)
    patterns = [
        "".join(rand.choice(PATTERNS) for _ in range(rand.randint(1, 9))) for _ in range(30_000)
    ]
    verdicts = ask_kafka(("pattern", "x", pattern) for pattern in patterns)
    valid = [one for one, (said, _) in zip(patterns, verdicts, strict=True) if said != INVALID]
    taken = {one for one in patterns if pattern_fault(one) is None}
    assert len(valid) > 5_000 and not taken - set(valid)
    # The look-behinds and escapes that the module names.
    assert len(set(valid) - taken) < 0.01 * len(valid)


def test_rules_make_the_principals_that_they_make_in_kafka() -> None:
    need_java()
    asked = [(rule, subject) for rule in RULES for subject in SUBJECTS]
    kafkas = ask_kafka(("principal", "x", f"{rule}\0{subject}") for rule, subject in asked)
    kwires = []
    for rule, subject in asked:
        try:
            kwires.append(("valid", PrincipalRules(rule).name(subject)))
        except ValueError:
            kwires.append((INVALID, ""))
    assert kwires == kafkas
