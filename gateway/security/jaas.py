"""Reads ``sasl.jaas.config``: a login module's class, a control flag, options, a semicolon.

The grammar is that of Kafka's ``JaasConfig``, which uses Java's ``StreamTokenizer``: words of
letters, digits and ``_ $ - .`` that do not begin with a digit, ``-`` or ``.``; texts in single or
double quotes with C's escapes; comments. Where Java silently reads something else than what is
written (a quote that is not closed on its line, a ``/`` that turns the rest of the line into a
comment, an option given twice) the text is refused. No error repeats any of the text: it holds
passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.security.secret import Secret

_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_LETTERS: Final = r"A-Za-z_$\u00a0-\U0010ffff"
_TOKEN: Final = re.compile(
    rf"""(?P<blank>[\x00-\x20]+|//[^\r\n]*|/\*.*?\*/)
       | (?P<word>[{_LETTERS}][{_LETTERS}0-9.\-]*)
       | (?P<quoted>"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
       | (?P<mark>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(.))", re.DOTALL)
_CONTROL: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """The text is no JAAS configuration of one login module. The error names the position, never
    the text there.
    """


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: the class's name, the control flag in capitals, and the options, all kept as
    secrets.
    """

    name: str
    flag: str
    options: Mapping[str, Secret]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # text, mark, or end
    text: str
    at: int


def parse_jaas(text: str) -> LoginModule:
    """Return the one login module of ``text``. Raises JaasError."""
    tokens = _tokens(text)
    name = _expect_text(next(tokens), "the name of a login module")
    flag = _expect_text(next(tokens), "a control flag (required)")
    if flag.upper() not in _FLAGS:
        raise JaasError(
            "no control flag behind the login module's name: "
            f"one of {', '.join(sorted(_FLAGS)).lower()} is needed"
        )
    options = _options(tokens)
    rest = next(tokens)
    if rest.kind != "end":
        raise JaasError(
            f"something stands behind the semicolon, at character {rest.at}: "
            "one login module is needed"
        )
    return LoginModule(name, flag.upper(), options)


def _options(tokens: Iterator[_Token]) -> dict[str, Secret]:
    options: dict[str, Secret] = {}
    while (token := next(tokens)).text != ";" or token.kind != "mark":
        if token.kind == "end":
            raise JaasError("it does not end with a semicolon")
        key = _expect_text(token, "the name of an option")
        equals = next(tokens)
        if (equals.kind, equals.text) != ("mark", "="):
            raise JaasError(f"no = behind the name of the option at character {token.at}")
        if key in options:
            raise JaasError(f"an option is given twice, at character {token.at}")
        options[key] = Secret(_expect_text(next(tokens), "the value of an option"))
    return options


def _expect_text(token: _Token, what: str) -> str:
    if token.kind == "text":
        return token.text
    where = "at the end" if token.kind == "end" else f"at character {token.at}"
    raise JaasError(f"{what} is missing {where}")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise JaasError(_fault_at(text, at))
        if match["word"] is not None:
            yield _Token("text", match["word"], at + 1)
        elif match["quoted"] is not None:
            yield _Token("text", _ESCAPE.sub(_unescape, match["quoted"][1:-1]), at + 1)
        elif match["mark"] is not None:
            yield _Token("mark", match["mark"], at + 1)
        at = match.end()
    while True:
        yield _Token("end", "", len(text) + 1)


def _unescape(match: re.Match[str]) -> str:
    octal, other = match.groups()
    return chr(int(octal, 8)) if octal else _CONTROL.get(other, other)


def _fault_at(text: str, at: int) -> str:
    if text[at] in "\"'":
        return f"the quote at character {at + 1} is not closed on its line"
    if text.startswith("/*", at):
        return f"the comment at character {at + 1} is not closed"
    return f"character {at + 1} cannot stand outside of quotes: put the value in double quotes"
