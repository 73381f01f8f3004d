"""Reads regular expressions in the syntax of RE2/J, which subscriptions of consumer groups have
(SubscribedTopicRegex).

Only topic names are matched, so a set of characters is reduced to those that a name can have. It
matches nothing; ``regex`` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.groups.consumer.regex_characters import (
    ALL,
    PERL,
    POSIX,
    char_range,
    fold,
    unicode_class,
)

_REPEAT_MAX: Final = 1000
#: Groups inside each other.
_DEPTH_MAX: Final = 100
_PLACES: Final = {"A": "begin", "z": "end", "b": "word boundary", "B": "no word boundary"}
_CONTROLS: Final = dict(zip("afnrtv", "\a\f\n\r\t\v", strict=True))
_OCTAL: Final = frozenset("01234567")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_UNICODE_MAX: Final = 0x10FFFF


class RegexError(ValueError):
    """The text is no regular expression."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One of these characters."""

    characters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place: ``begin``, ``end``, ``word boundary``, ``no word boundary``."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``most`` None: without a limit."""

    node: Node
    least: int
    most: int | None


Node = Chars | Assertion | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    dot_all: bool = False


def parse_regex(text: str) -> Node:
    """Read an expression. Raises RegexError."""
    return _Parser(text).parse()


class _Parser:
    """One pass over an expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._names: set[str] = set()

    def parse(self) -> Node:
        node = self._choice(_Flags(), 0)
        if self._at < len(self._text):
            raise self._fault("unexpected )", ")")
        return node

    def _fault(self, reason: str, where: str) -> RegexError:
        return RegexError(f"{reason}: `{where}`")

    def _looks_at(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self) -> str:
        character = self._text[self._at]
        self._at += 1
        return character

    def _choice(self, flags: _Flags, depth: int) -> Node:
        if depth > _DEPTH_MAX:
            raise self._fault("expression nests too deeply", self._text[: self._at])
        branches: list[Node] = []
        parts: list[Node] = []
        while self._at < len(self._text) and not self._looks_at(")"):
            if self._looks_at("|"):
                self._at += 1
                branches.append(Sequence(tuple(parts)))
                parts = []
            elif self._looks_at("(?") and (changed := self._flags_alone(flags)) is not None:
                flags = changed
                if parts:  # an operator after them is of what stands before them
                    parts[-1] = self._repeats(parts[-1])
            elif self._looks_at("\\Q"):
                parts += self._quoted(flags)
                if parts:
                    parts[-1] = self._repeats(parts[-1])
            else:
                parts.append(self._repeats(self._atom(flags, depth)))
        branches.append(Sequence(tuple(parts)))
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _atom(self, flags: _Flags, depth: int) -> Node:
        start = self._at
        character = self._take()
        match character:
            case "(":
                inner = self._group_flags(flags, start) if self._looks_at("?") else flags
                node = self._choice(inner, depth + 1)
                if not self._looks_at(")"):
                    raise self._fault("missing closing )", self._text)
                self._at += 1
                return node
            case "[":
                return Chars(self._char_class(flags, start))
            case ".":
                return Chars(ALL)
            case "^":
                return Assertion("begin")
            case "$":
                return Assertion("end")
            case "*" | "+" | "?":
                raise self._fault("missing argument to repetition operator", character)
            case "{" if self._repeat_count(start) is not None:
                where = self._text[start : self._at]
                raise self._fault("missing argument to repetition operator", where)
            case "\\":
                return self._escaped(flags, start)
            case "{" if self._operator() is not None:  # a quirk of RE2/J
                raise self._fault(
                    "invalid nested repetition operator", self._text[start : self._at]
                )
            case _:
                return Chars(_char(ord(character), flags))

    # Repetitions.

    def _repeats(self, node: Node) -> Node:
        start = self._at
        count = self._operator()
        if count is None:
            return node
        if self._operator() is not None:
            raise self._fault("invalid nested repetition operator", self._text[start : self._at])
        return Repeat(node, *count)

    def _operator(self) -> tuple[int, int | None] | None:
        """Read one operator, if there is one, and the ``?`` that makes it take as few as it can."""
        at = self._at
        if at >= len(self._text):
            return None
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        character = self._text[at]
        count: tuple[int, int | None] | None = simple.get(character)
        if count is not None:
            self._at += 1
        elif character == "{":
            self._at += 1
            count = self._repeat_count(at)
            if count is None:
                self._at = at
                return None
        if count is not None and self._looks_at("?"):
            self._at += 1
        return count

    def _repeat_count(self, start: int) -> tuple[int, int | None] | None:
        """Read ``n}``, ``n,}`` or ``n,m}`` after a brace; None if it is only a brace."""
        end = self._text.find("}", self._at)
        if end < 0:
            return None
        low, comma, high = self._text[self._at : end].partition(",")
        numbers = [number for number in (low, high) if number]
        if not low or any(not _is_number(number) for number in numbers):
            return None
        self._at = end + 1
        least = int(low[:5])
        most = least if not comma else int(high[:5]) if high else None
        if max(least, most or 0) > _REPEAT_MAX or (most is not None and least > most):
            raise self._fault("invalid repeat count", self._text[start : end + 1])
        return least, most

    # Groups.

    def _flags_alone(self, flags: _Flags) -> _Flags | None:
        """Read ``(?flags)``; None, and nothing is read, if it begins a group."""
        start = self._at
        self._at += 2
        if self._looks_at("P") or self._looks_at("<"):
            self._at = start
            return None
        changed, end = self._read_flags(flags, start)
        if end == ")":
            return changed
        self._at = start
        return None

    def _group_flags(self, flags: _Flags, start: int) -> _Flags:
        self._at += 1
        if self._looks_at("P<") or self._looks_at("<"):
            self._name(start)
            return flags
        changed, end = self._read_flags(flags, start)
        if end != ":":
            self._at -= 1  # the group ends here: "(?i)" was read before
        return changed

    def _name(self, start: int) -> None:
        begin = self._text.index("<", start) + 1
        end = self._text.find(">", begin)
        if end < 0:
            raise self._fault("invalid named capture", self._text[start:])
        name = self._text[begin:end]
        if not name or not all(c.isascii() and (c.isalnum() or c == "_") for c in name):
            raise self._fault("invalid named capture", self._text[start : end + 1])
        if name in self._names:
            raise self._fault("duplicate capture group name", name)
        self._names.add(name)
        self._at = end + 1

    def _read_flags(self, flags: _Flags, start: int) -> tuple[_Flags, str]:
        on, seen = True, False
        ignore_case, dot_all = flags.ignore_case, flags.dot_all
        while self._at < len(self._text):
            character = self._take()
            match character:
                case "i":
                    ignore_case, seen = on, True
                case "s":
                    dot_all, seen = on, True
                case "m" | "U":  # a name has one line; how much a part takes does not matter
                    seen = True
                case "-" if on:
                    on, seen = False, False
                case ":" | ")" if on or seen:
                    return _Flags(ignore_case, dot_all), character
                case _:
                    break
        raise self._fault("invalid or unsupported Perl syntax", self._text[start : self._at])

    # Characters.

    def _quoted(self, flags: _Flags) -> list[Node]:
        self._at += 2
        end = self._text.find("\\E", self._at)
        text = self._text[self._at :] if end < 0 else self._text[self._at : end]
        self._at = len(self._text) if end < 0 else end + 2
        return [Chars(_char(ord(character), flags)) for character in text]

    def _escaped(self, flags: _Flags, start: int) -> Node:
        character = self._text[self._at : self._at + 1]
        if character in _PLACES:
            self._at += 1
            return Assertion(_PLACES[character])
        found = self._class_escape(flags, start)
        return Chars(_char(self._escape(start), flags) if found is None else found)

    def _class_escape(self, flags: _Flags, start: int) -> frozenset[str] | None:
        """Read a class after a backslash: ``d``, ``pL``; None, and nothing is read, if it is
        another escape.
        """
        character = self._text[self._at : self._at + 1]
        if character and character in "dDsSwW":
            self._at += 1
            found = PERL[character.lower()]
            return found if character.islower() else ALL - found
        if not character or character not in "pP":
            return None
        self._at += 1
        name = self._text[self._at : self._at + 1]
        self._at += 1
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise self._fault("invalid character class range", self._text[start:])
            name, self._at = self._text[self._at : end], end + 1
        negated = (character == "P") != name.startswith("^")
        named = unicode_class(name.removeprefix("^"))
        if named is None:
            raise self._fault("invalid character class range", self._text[start : self._at])
        found = fold(named) if flags.ignore_case else named
        return ALL - found if negated else found

    def _escape(self, start: int) -> int:
        if self._at >= len(self._text):
            raise self._fault("trailing backslash at end of expression", "")
        character = self._take()
        following = self._text[self._at : self._at + 1]
        if character == "0" or (character in _OCTAL and following and following in _OCTAL):
            digits = character
            while len(digits) < 3 and self._text[self._at : self._at + 1] in _OCTAL:
                digits += self._take()
            return int(digits, 8)
        if character == "x":
            return self._hexadecimal(start)
        if character in _CONTROLS:
            return ord(_CONTROLS[character])
        if character.isascii() and character.isalnum():
            raise self._fault("invalid escape sequence", self._text[start : self._at])
        return ord(character)

    def _hexadecimal(self, start: int) -> int:
        if self._looks_at("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at + 1 : end] if end > 0 else ""
            self._at = end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
            if len(digits) < 2:
                digits = ""
        if not digits or not _HEX.issuperset(digits) or int(digits[-32:], 16) > _UNICODE_MAX:
            raise self._fault("invalid escape sequence", self._text[start : start + 3])
        return int(digits, 16)

    def _char_class(self, flags: _Flags, start: int) -> frozenset[str]:
        negated = self._looks_at("^")
        self._at += negated
        found: set[str] = set()
        is_first = True
        while is_first or not self._looks_at("]"):
            is_first = False
            if self._at >= len(self._text):
                raise self._fault("missing closing ]", self._text[start:])
            found |= self._class_item(flags, start)
        self._at += 1
        return ALL - found if negated else frozenset(found)

    def _class_item(self, flags: _Flags, start: int) -> frozenset[str]:
        if self._looks_at("[:"):
            end = self._text.find(":]", self._at + 2)
            if end >= 0:
                return self._posix(end, flags)
        begin = self._at
        if self._looks_at("\\"):
            self._at += 1
            found = self._class_escape(flags, begin)
            if found is not None:
                return found
            self._at -= 1
        low = self._class_character(start)
        high = low
        if self._looks_at("-") and not self._looks_at("-]") and self._at + 1 < len(self._text):
            self._at += 1
            high = self._class_character(start)
            if high < low:
                raise self._fault("invalid character class range", self._text[begin : self._at])
        return char_range(low, high, flags.ignore_case)

    def _class_character(self, start: int) -> int:
        if self._at >= len(self._text):
            raise self._fault("missing closing ]", self._text[start:])
        begin = self._at
        character = self._take()
        return self._escape(begin) if character == "\\" else ord(character)

    def _posix(self, end: int, flags: _Flags) -> frozenset[str]:
        name = self._text[self._at + 2 : end]
        named = POSIX.get(name.removeprefix("^"))
        if named is None:
            raise self._fault("invalid character class range", self._text[self._at : end + 2])
        self._at = end + 2
        found = fold(named) if flags.ignore_case else named
        return ALL - found if name.startswith("^") else found


def _is_number(text: str) -> bool:
    """Whether it is a number without leading zeros, as RE2 reads the bounds of a repetition."""
    return text.isascii() and text.isdigit() and (len(text) == 1 or text[0] != "0")


def _char(code: int, flags: _Flags) -> frozenset[str]:
    return char_range(code, code, flags.ignore_case)
