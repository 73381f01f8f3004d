"""Escapes the characters of a text that a terminal would execute, or that would hide what it shows:
control characters, marks of the direction of writing, and all others that are not printable.

Names in a cluster are chosen by clients. Everything that is printed goes through one of these
functions; both leave other characters as they are, also beyond ASCII.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

#: Characters that may be unprintable: all but the printable part of ASCII.
_SUSPECT: Final = re.compile(r"[^ -~]")
#: The same in indented JSON, whose line ends are its own.
_SUSPECT_IN_JSON: Final = re.compile(r"[^\n -~]")


def printable(text: str) -> str:
    r"""Return ``text`` with ``\x9b`` and ``\u202e`` in place of such characters, line ends
    included.
    """
    return text if text.isprintable() else _SUSPECT.sub(_escaped, text)


def json_text(value: Any, indent: int | None = None) -> str:
    r"""Return ``value`` as JSON, with ``\u009b`` in place of such characters in its strings: the
    same value to a program.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if text.isprintable() else _SUSPECT_IN_JSON.sub(_escaped_in_json, text)


def _escaped(match: re.Match[str]) -> str:
    one = match[0]
    return one if one.isprintable() else one.encode("unicode_escape").decode("ascii")


def _escaped_in_json(match: re.Match[str]) -> str:
    one = match[0]
    return one if one.isprintable() else json.dumps(one)[1:-1]
