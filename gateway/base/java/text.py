"""Reads texts as Java reads them: blanks around a text, lists, whole numbers, decimals, truth
values, durations; and hashes them as Java does.

A value that Python takes and Java does not ends the start of a Kafka broker, so no value that a
broker or one of Kafka's tools reads may go through ``str.strip``, ``int`` or ``float`` alone. It
follows ``String.trim``, ``Integer.parseInt``, ``Double.parseDouble``,
``String.equalsIgnoreCase``, ``String.hashCode``, ``Duration.parse`` and the list of ``ConfigDef``.
It knows no key and no limit of a value.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

#: ``String.trim`` cuts these: spaces and every control character, but no blank beyond ASCII.
_TRIMMED: Final = "".join(map(chr, range(0x21)))
#: ``\\s`` of Java's patterns.
_SPACES: Final = " \t\n\x0b\f\r"
#: Letters beyond ASCII whose upper or lower case is a letter of ASCII.
_LIKE_ASCII: Final = {0x130: "i", 0x131: "i", 0x17F: "s", 0x212A: "k"}
#: The longest whole number has 19 digits, and ``int`` takes the square of their number.
_DIGITS_MAX: Final = 20
# No digit can belong to two repetitions, so that a text that does not fit is refused at once.
_DECIMAL: Final = re.compile(
    r"[+-]?(?:NaN|Infinity)|([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?"
)
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP])([+-]?[0-9]+)[dDfF]?"
)
_DURATION: Final = re.compile(
    r"([+-]?)P(?:([+-]?[0-9]+)D)?"
    r"(?:T(?:([+-]?[0-9]+)H)?(?:([+-]?[0-9]+)M)?(?:([+-]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
#: Seconds of a second, a minute, an hour and a day.
_UNITS_S: Final = (1, 60, 3600, 86400)
#: Exponents of two beyond which every mantissa of a value's length gives zero or infinity.
_EXPONENT_MAX: Final = 1 << 30


def trim(text: str) -> str:
    """Cut the characters up to U+0020 from both ends (``String.trim``)."""
    return text.strip(_TRIMMED)


def hash_code(text: str) -> int:
    """Return the hash of a text, an int32 (``String.hashCode``)."""
    code = 0
    for unit in memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]:
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


def split_list(text: str) -> list[str]:
    """Return the elements of a list as ``ConfigDef`` splits a trimmed text: the spaces around each
    comma go, the empty text is the empty list.
    """
    if not text:
        return []
    first, *others = text.split(",")
    if not others:
        return [first]
    *inner, last = (one.lstrip(_SPACES) for one in others)
    return [first.rstrip(_SPACES), *(one.rstrip(_SPACES) for one in inner), last]


def parse_integer(text: str, bits: int) -> int:
    """Return the whole number of ``bits`` bits that ``text`` is to ``Integer.parseInt``, or its
    relatives for other sizes. Raises ValueError.

    Digits of every script count, those beyond the first 65,536 characters excepted.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    # ``isdecimal`` is false for the empty text.
    if not digits.isdecimal() or max(digits) > "\uffff":
        raise ValueError(f"not a number of {bits} bits")
    if not digits.isascii():
        digits = "".join(str(unicodedata.decimal(one)) for one in digits)
    digits = digits.lstrip("0") or "0"
    number = int(digits[:_DIGITS_MAX]) * (-1 if text[0] == "-" else 1)
    if len(digits) > _DIGITS_MAX or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"not a number of {bits} bits")
    return number


def parse_double(text: str) -> float:
    """Return the number that ``text`` is to ``Double.parseDouble``. Raises ValueError."""
    text = trim(text)
    if found := _DECIMAL.fullmatch(text):
        # Without Java's suffixes of type, which NaN and Infinity do not have.
        return float(found[1] or text)
    if found := _HEXADECIMAL.fullmatch(text):
        return _hexadecimal(found[1], found[2])
    raise ValueError("not a decimal number")


def _hexadecimal(mantissa: str, exponent: str) -> float:
    digits = exponent.lstrip("+-").lstrip("0") or "0"
    power = min(int(digits[:_DIGITS_MAX]), _EXPONENT_MAX)
    try:
        return float.fromhex(f"{mantissa}{'-' if exponent[0] == '-' else ''}{power}")
    # A literal that is too large is Infinity.
    except OverflowError:
        return float("-inf" if mantissa[0] == "-" else "inf")


def equals_ignore_case(text: str, word: str) -> bool:
    """Whether ``text`` is ``word``, a word of lower-case ASCII, as ``String.equalsIgnoreCase``
    compares them.
    """
    return text.translate(_LIKE_ASCII).lower() == word


def parse_boolean(text: str) -> bool:
    """Return the truth value that ``text`` is to ``ConfigDef``. Raises ValueError."""
    if equals_ignore_case(text, "true"):
        return True
    if equals_ignore_case(text, "false"):
        return False
    raise ValueError("neither true nor false")


def is_duration(text: str) -> bool:
    """Whether ``Duration.parse`` reads ``text``, as a time that is not negative."""
    found = _DURATION.fullmatch(text)
    # A "T" at the end announces a time, and none follows.
    if found is None or text[-1] in "tT" or not any(found.groups()[1:5]):
        return False
    sign, *counts, fraction = found.groups()
    seconds = 0
    try:
        # Java adds the smallest unit first, and no sum on the way may exceed its 64 bits.
        for count, unit in zip(reversed(counts), _UNITS_S, strict=True):
            part = _long(parse_integer(count, 64) * unit) if count else 0
            seconds = _long(seconds + part)
        nanoseconds = int((fraction or "").ljust(9, "0"))
        nanoseconds *= -1 if (counts[-1] or "").startswith("-") else 1
        total = seconds * 10**9 + nanoseconds
        _long(total // 10**9)
        total *= -1 if sign == "-" else 1
        _long(total // 10**9)
    except ValueError:
        return False
    return total >= 0


def _long(number: int) -> int:
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("more than 64 bits")
    return number
