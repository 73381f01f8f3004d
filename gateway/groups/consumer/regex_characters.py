"""Holds the sets of characters that an expression of RE2/J can name, reduced to those that topic
names can have.
"""

from __future__ import annotations

import string
import unicodedata
from typing import Final

#: ``Topic.LEGAL_CHARS``
ALL: Final = frozenset(string.ascii_letters + string.digits + "._-")
_DIGITS: Final = frozenset(string.digits)
_LETTERS: Final = frozenset(string.ascii_letters)
_UPPER: Final = frozenset(string.ascii_uppercase)
_WORD: Final = _LETTERS | _DIGITS | {"_"}
PERL: Final = {"d": _DIGITS, "w": _WORD, "s": frozenset[str]()}
POSIX: Final = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": ALL,
    "blank": frozenset[str](),
    "cntrl": frozenset[str](),
    "digit": _DIGITS,
    "graph": ALL,
    "lower": _LETTERS - _UPPER,
    "print": ALL,
    "punct": ALL - _LETTERS - _DIGITS,
    "space": frozenset[str](),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGITS | (ALL & frozenset("abcdefABCDEF")),
}
#: Names in ``\p{...}``.
_CATEGORY_NAMES: Final = """
    C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl
    Zp Zs
"""
_SCRIPT_NAMES: Final = """
    Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid
    Canadian_Aboriginal Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret
    Devanagari Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic Gothic Greek Gujarati Gurmukhi
    Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
    Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin
    Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar
    New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya
    Osmanya Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra Shavian Sinhala Sundanese
    Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai Tibetan
    Tifinagh Ugaritic Unknown Vai Yi
"""
_CATEGORIES: Final = frozenset(_CATEGORY_NAMES.split())
_SCRIPTS: Final = frozenset(_SCRIPT_NAMES.split())
#: Characters beyond ASCII that differ from a letter in case only.
_FOLDED: Final = {0x212A: "kK", 0x17F: "sS"}


def char_range(low: int, high: int, ignore_case: bool) -> frozenset[str]:
    """The characters with these codes, and those between them."""
    found = frozenset(one for one in ALL if low <= ord(one) <= high)
    if ignore_case:
        others = (pair for code, pair in _FOLDED.items() if low <= code <= high)
        found = fold(found).union(*others)
    return found


def fold(characters: frozenset[str]) -> frozenset[str]:
    """These letters in both cases."""
    return characters | {one.swapcase() for one in characters}


def unicode_class(name: str) -> frozenset[str] | None:
    """The characters of a category or script; None if there is none of that name."""
    if name == "Any":
        return ALL
    if name in _CATEGORIES:
        return frozenset(one for one in ALL if unicodedata.category(one).startswith(name))
    if name not in _SCRIPTS:
        return None
    return {"Latin": _LETTERS, "Common": ALL - _LETTERS}.get(name, frozenset())


def is_word(character: str) -> bool:
    """Whether it is one of ``\\w``."""
    return character in _WORD
