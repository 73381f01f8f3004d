"""Escaping of what a terminal would execute."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from kwire.printable import json_text, printable

#: Categories of characters that a terminal executes, or that change or hide what is shown:
#: controls, marks of direction and other formats, surrogates, line and paragraph separators.
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
ALL = "".join(map(chr, range(sys.maxunicode + 1)))


def hidden(text: str) -> set[str]:
    return {one for one in text if unicodedata.category(one) in HIDDEN}


def test_no_hidden_character_is_left() -> None:
    assert len(hidden(ALL)) > 2000
    assert hidden(printable(ALL)) == set() == hidden(json_text(ALL))


def test_printable_characters_stay_as_they_are() -> None:
    text = 'orders-é日😀 "quoted" \\'
    assert printable(text) == text
    assert json_text(text) == json.dumps(text, ensure_ascii=False)


@pytest.mark.parametrize("indent", [None, 2])
def test_json_has_the_same_value_for_a_program(indent: int | None) -> None:
    value = {"n\x9b\u202e": ["\x7f\x1b[2J\n", "\U000e0041", "é", {"\u2028": 1}]}
    text = json_text(value, indent)
    assert json.loads(text) == value
    assert hidden(text) <= {"\n"} and ("\n" in text) == (indent is not None)
