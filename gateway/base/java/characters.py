"""Knows the character properties that Java's regular expressions may name (``\\p{...}``).

The names are those of ``java.util.regex.Pattern`` of Java 17: categories, POSIX classes, methods of
``Character``, binary properties, and the scripts in use. It knows no block and no character.
"""

from __future__ import annotations

from typing import Final

_CATEGORIES_TEXT: Final = """
Cn Lu Ll Lt Lm Lo Mn Me Mc Nd Nl No Zs Zl Zp Cc Cf Co Cs Pd Ps Pe Pc Po Sm Sc Sk So Pi Pf
L M N Z C P S LC LD L1 all ASCII Alnum Alpha Blank Cntrl Digit Graph Lower Print Punct Space
Upper XDigit javaLowerCase javaUpperCase javaAlphabetic javaIdeographic javaTitleCase javaDigit
javaDefined javaLetter javaLetterOrDigit javaJavaIdentifierStart javaJavaIdentifierPart
javaUnicodeIdentifierStart javaUnicodeIdentifierPart javaIdentifierIgnorable javaSpaceChar
javaWhitespace javaISOControl javaMirrored
"""
#: Binary properties, and scripts: behind ``Is``, in any case.
_BINARY_TEXT: Final = """
alphabetic letter ideographic lowercase uppercase titlecase white_space whitespace control
punctuation hex_digit hexdigit assigned noncharacter_code_point noncharactercodepoint digit
alnum blank graph print word join_control joincontrol
"""
_SCRIPTS_TEXT: Final = """
common latin greek cyrillic armenian hebrew arabic syriac thaana devanagari bengali gurmukhi
gujarati oriya tamil telugu kannada malayalam sinhala thai lao tibetan myanmar georgian hangul
ethiopic cherokee canadian_aboriginal ogham runic khmer mongolian hiragana katakana bopomofo han
yi gothic inherited coptic braille javanese balinese unknown
"""
_CATEGORIES: Final = frozenset(_CATEGORIES_TEXT.split())
_BINARY: Final = frozenset(_BINARY_TEXT.split())
_SCRIPTS: Final = frozenset(_SCRIPTS_TEXT.split())


def is_property(name: str) -> bool:
    """Whether Java knows ``name``, as between the braces of ``\\p{...}``."""
    kind, equals, value = name.partition("=")
    if equals:
        match kind.lower():
            case "sc" | "script":
                return value.lower() in _SCRIPTS
            case "gc" | "general_category":
                return value in _CATEGORIES
        return False
    if name.startswith("Is"):
        name = name[2:]
        return name in _CATEGORIES or name.lower() in _BINARY | _SCRIPTS
    return name in _CATEGORIES
