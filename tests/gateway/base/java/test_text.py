"""Texts are read as Java reads them. The facts are those of Java 17, and Kafka 4.3.1's ConfigDef;
``tests/interop/test_text_as_kafka.py`` asks both.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.java.text import (
    equals_ignore_case,
    is_duration,
    parse_boolean,
    parse_double,
    parse_integer,
    split_list,
    trim,
)

BLANKS_BEYOND_ASCII = "\x85\xa0\u1680\u2003\u2028\u202f\u3000\ufeff"


def test_trim_cuts_what_is_up_to_a_space_and_no_other_blank() -> None:
    assert trim("\0\x01\x1c\x1f \t\nx y\r\x0b\x0c ") == "x y"
    assert trim(f"{BLANKS_BEYOND_ASCII}x\x7f") == f"{BLANKS_BEYOND_ASCII}x\x7f"


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("", []),
        (",", ["", ""]),
        ("a \t\n\x0b\f\r, b", ["a", "b"]),
        ("a , b ,\tc", ["a", "b", "c"]),
        ("a,\x1cb", ["a", "\x1cb"]),
        ("a,\xa0b", ["a", "\xa0b"]),
    ],
)
def test_list_is_split_at_commas_and_the_spaces_of_ascii(text: str, elements: list[str]) -> None:
    assert split_list(text) == elements


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+5", 5),
        ("-0", 0),
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("0" * 30_000 + "7", 7),
        ("\u0668\u0666\u0664", 864),
        ("-\uff18", -8),
    ],
)
def test_whole_number_is_read_as_integer_parse_int_does(text: str, number: int) -> None:
    assert parse_integer(text, 32) == number


@pytest.mark.parametrize(
    "text",
    [
        *("", "+", "--1", "1_000", " 1", "1\n", "\xa01", "0x1", "1.0", "1e3", "\u2460", "\u00b2"),
        *("2147483648", "-2147483649", "9" * 30_000, "\U0001d7d9", "\uff0b1"),
    ],
)
def test_text_that_integer_parse_int_refuses_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a number of 32 bits"):
        parse_integer(text, 32)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1d", 1.0),
        (" .5F\0", 0.5),
        ("1.e2", 100.0),
        ("0x1p3", 8.0),
        ("-0X.8P+1d", -1.0),
        ("Infinity", math.inf),
        ("-0x1p2000", -math.inf),
        ("0x1p-99999999999", 0.0),
        ("1e99999999999", math.inf),
    ],
)
def test_decimal_is_read_as_double_parse_double_does(text: str, number: float) -> None:
    assert parse_double(text) == number


@pytest.mark.parametrize(
    "text", ["", "nan", "inf", "1_0.0", "\u0660.5", "\xa00.5", "1e", "0x1", "1dd", "NaNd", "."]
)
def test_text_that_double_parse_double_refuses_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a decimal"):
        parse_double(text)


def test_words_are_compared_without_regard_to_case_as_java_does() -> None:
    assert parse_boolean("TRUE") and not parse_boolean("fal\u017fe")
    assert equals_ignore_case("\u212aIT", "kit") and not equals_ignore_case("stra\xdfe", "strasse")
    for text in ("yes", "1", " true", "tru\u0435"):
        with pytest.raises(ValueError, match="neither"):
            parse_boolean(text)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("PT1S", True),
        ("p1dt2h3m4.5s", True),
        ("PT1,S", True),
        ("-PT-1S", True),
        ("PT-0.5S", False),
        ("P1DT-86401S", False),
        ("P", False),
        ("PT", False),
        ("P1DT", False),
        ("PT.5S", False),
        ("PT1\u017f", False),
        ("PT\u06611S", False),
        ("PT9223372036854775807S", True),
        ("-PT-9223372036854775808S", False),
        ("P106751991167300D", True),
        ("P106751991167301D", False),
        ("P1DT9223372036854775807S", False),
        ("P" + "9" * 30_000 + "D", False),
    ],
)
def test_duration_is_read_as_duration_parse_does(text: str, is_one: bool) -> None:
    assert is_duration(text) == is_one


@given(st.text(alphabet="0123456789+-_.eEdDfFxXpPNaInfity \0\xa0\u0661\uff11\U0001d7d9"))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    for parse in (parse_double, lambda text: parse_integer(text, 64)):
        try:
            parse(text)
        except ValueError:
            continue
