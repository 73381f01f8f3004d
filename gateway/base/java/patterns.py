"""Reads regular expressions as Java does: finds the fault of one, and compiles one for use here.

The syntaxes of Java and Python overlap, and a pattern that only Python takes ends the publishing of
metadata on a Kafka broker. Nothing is taken that ``java.util.regex.Pattern`` of Java 17, the oldest
that Kafka's brokers run on, refuses. Refused although Java takes it: named blocks
(``\\p{InGreek}``) and characters (``\\N{...}``), the flags ``x`` and ``c``, an unbounded
look-behind, and groups that are nested deeper than 50. It searches nothing.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.base.java.characters import is_property

_DEPTH_MAX: Final = 50
_REPETITIONS_MAX: Final = 2**31 - 1
_UNBOUNDED: Final = float("inf")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_OCTAL: Final = frozenset("01234567")
_FLAGS: Final = frozenset("imsduU")
_GROUP_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_REPETITION: Final = re.compile(r"\{([0-9]+)(,)?([0-9]*)\}")
_UNICODE: Final = re.compile(r"u[0-9A-Fa-f]{4}|x(?:[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]{1,32}\})")
_OCTAL_ESCAPE: Final = re.compile(r"0(?:[0-3][0-7]{2}|[0-7]{1,2})")
_CLASS_LETTERS: Final = frozenset("dDhHsSvVwW")
_CONTROLS: Final = dict(zip("aefnrt", "\a\x1b\f\n\r\t", strict=True))
#: Escapes of positions and of line ends, outside of character classes alone: their longest match.
_OUTSIDE: Final = {**dict.fromkeys("AbBGZz", 0.0), "R": 2.0, "X": _UNBOUNDED}
#: Constructs that Python does not know, or reads in another way.
_NOT_PYTHON: Final = frozenset("hHvVRXGZzecpPk")


class _Fault(Exception):
    """The pattern is none; the text says why and where."""


def pattern_fault(text: str) -> str | None:
    """Return why ``text`` is no regular expression to Java, None if it is one."""
    try:
        _Pattern(text).read()
    except _Fault as fault:
        return str(fault)
    return None


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that matches here what ``text`` matches in Java. Raises ValueError for one
    that Java refuses, or that means something else in Python.
    """
    pattern = _Pattern(text)
    try:
        pattern.read()
        if pattern.not_python:
            raise _Fault(f"{pattern.not_python} is not supported")
        return re.compile("".join(pattern.python), re.ASCII)
    except (_Fault, re.error) as error:
        raise ValueError(str(error)) from None


class _Pattern:
    """One pass over a pattern. Each method reads one construct at ``_at`` and returns the length of
    its longest match.

    ``python`` is the pattern in Python's syntax, unless ``not_python`` names a construct that has
    none.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._names: set[str] = set()
        self.python: list[str] = []
        self.not_python = ""

    def read(self) -> None:
        """Read the whole pattern. Raises _Fault."""
        self._alternatives()
        if self._at < len(self._text):
            raise self._fault("a closing parenthesis without an opening one")

    def _fault(self, why: str) -> _Fault:
        return _Fault(f"{why} at character {self._at + 1}")

    def _next(self, size: int = 1) -> str:
        return self._text[self._at : self._at + size]

    def _take(self, size: int = 1, python: str | None = None) -> str:
        """Go on, and copy what was read, or ``python`` in its place."""
        taken = self._next(size)
        self._at += size
        self.python.append(taken if python is None else python)
        return taken

    def _alternatives(self) -> float:
        longest = self._sequence()
        while self._next() == "|":
            self._take()
            longest = max(longest, self._sequence())
        return longest

    def _sequence(self) -> float:
        longest = 0.0
        while (char := self._next()) not in ("", "|", ")"):
            if self._next(2) == "\\Q":
                longest += self._quoted()
                continue
            if char == "(":
                length = self._group()
                # A flag for the rest of the group, which nothing can repeat.
                if length is None:
                    continue
            elif char == "[":
                length = self._class()
            elif char == "\\":
                length = self._escape()
            else:
                length = self._plain(char)
            longest += self._repeated(length)
        return longest

    def _plain(self, char: str) -> float:
        if char in "?*+":
            raise self._fault(f"{char} without anything to repeat")
        # Java repeats the empty text before a brace; Python takes the brace for a letter.
        if char == "{":
            self.not_python = self.not_python or "a repetition of nothing"
            return 0
        if char == ".":
            self._take(1, "[^\\n\\r\\x85\\u2028\\u2029]")
            return 1
        if char == "$":
            self._take(1, "(?=(?:\\r\\n|[\\n\\r\\x85\\u2028\\u2029])?\\Z)")
            return 0
        self._take()
        return 0 if char == "^" else 1

    def _repeated(self, length: float) -> float:
        """Read a quantifier, if there is one, and ``?`` or ``+`` behind it."""
        char, most = self._next(), 1.0
        if char == "{":
            most = self._counted()
        elif char and char in "?*+":
            self._take()
            most = 1 if char == "?" else _UNBOUNDED
        else:
            return length
        if self._next() and self._next() in "?+":
            self._take()
        return length * most if length else 0

    def _counted(self) -> float:
        found = _REPETITION.match(self._text, self._at)
        if found is None:
            raise self._fault("a brace without a number of repetitions")
        # More digits are more than Java's numbers, and reading them takes the square of their
        # number.
        least, comma, most = (one[-20:] if one else one for one in found.groups())
        low = int(least)
        high = int(most) if most else low
        if max(low, high) > _REPETITIONS_MAX or max(map(len, found.groups(""))) > 10 or high < low:
            raise self._fault("an impossible number of repetitions")
        self._take(len(found[0]))
        return _UNBOUNDED if comma and not most else high

    # --- groups
    # ---------------------------------------------------------------------------------------------

    def _group(self) -> float | None:
        """Read a group; None for flags of the rest of the group around it."""
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._fault("too many groups in one another")
        is_behind = is_around = False
        if self._next(2) != "(?":
            self._take()
        elif self._next(3) in ("(?:", "(?=", "(?!", "(?>"):
            is_around = self._take(3)[2] in "=!"
        elif self._next(4) in ("(?<=", "(?<!"):
            is_behind = bool(self._take(4))
        elif self._next(3) == "(?<":
            self._name()
        elif not self._flags():
            self._depth -= 1
            return None
        length = self._alternatives()
        if self._next() != ")":
            raise self._fault("a parenthesis that is not closed")
        self._take()
        self._depth -= 1
        if is_behind and length == _UNBOUNDED:
            raise self._fault("a look-behind without a longest match, which ends")
        return 0 if is_around or is_behind else length

    def _name(self) -> None:
        found = _GROUP_NAME.match(self._text, self._at + 3)
        if found is None or self._text[found.end() : found.end() + 1] != ">":
            raise self._fault("a group without a name of letters and digits")
        if found[0] in self._names:
            raise self._fault(f"a second group of the name {found[0]}")
        self._names.add(found[0])
        self._take(len(found[0]) + 4, f"(?P<{found[0]}>")

    def _flags(self) -> bool:
        """Read ``(?flags-flags`` and the colon or parenthesis behind; True for a colon."""
        end = self._at + 2
        flags = ""
        while self._text[end : end + 1] in (*_FLAGS, "-"):
            flags += self._text[end]
            end += 1
        if flags.count("-") > 1 or self._text[end : end + 1] not in (":", ")"):
            self._at = end
            raise self._fault("an unknown kind of group, or a flag that is not supported")
        if flags != "i":
            self.not_python = self.not_python or f"the flags {flags}"
        return self._take(end + 1 - self._at).endswith(":")

    # --- escapes
    # ---------------------------------------------------------------------------------------------

    def _quoted(self) -> float:
        """Read ``\\Q...\\E``; what is quoted ends at the end of the pattern at the latest."""
        start = self._at + 2
        end = self._text.find("\\E", start)
        quoted = self._text[start:] if end < 0 else self._text[start:end]
        self._take(len(quoted) + (2 if end < 0 else 4), "")
        length = 0.0
        for at, char in enumerate(quoted):
            self.python.append(re.escape(char))
            # A quantifier behind it repeats the last character alone.
            length += self._repeated(1) if at + 1 == len(quoted) else 1
        return length

    def _escape(self) -> float:
        char = self._next(2)[1:]
        if char in ("p", "P"):
            self._property()
            return 1
        if char in _OUTSIDE:
            return self._position(char)
        if char == "k":
            found = _GROUP_NAME.match(self._text, self._at + 3)
            if self._next(3) != "\\k<" or found is None or found[0] not in self._names:
                raise self._fault("a reference to no group before it")
            if self._text[found.end() : found.end() + 1] != ">":
                raise self._fault("a group's name that is not closed")
            self._take(len(found[0]) + 4, f"(?P={found[0]})")
            return _UNBOUNDED
        if char and char in "123456789":
            self._take(2)
            return _UNBOUNDED
        self._character()
        return 1

    def _position(self, char: str) -> float:
        if self._next(4) == "\\b{g":
            if self._next(5) != "\\b{g}":
                raise self._fault("a boundary that is not closed")
            self.not_python = self.not_python or "\\b{g}"
            self._take(5)
            return _UNBOUNDED
        if char in _NOT_PYTHON:
            self.not_python = self.not_python or f"\\{char}"
        self._take(2)
        return _OUTSIDE[char]

    def _character(self) -> int:
        """Read an escape that classes have, too. Return the character's number, -1 for one that
        stands for several characters.
        """
        char = self._next(2)[1:]
        if char in _CLASS_LETTERS:
            if char in _NOT_PYTHON:
                self.not_python = self.not_python or f"\\{char}"
            self._take(2)
            return -1
        if found := _UNICODE.match(self._text, self._at + 1):
            number = int(found[0].strip("ux{}"), 16)
            if number > 0x10FFFF:
                raise self._fault("a number that no character has")
            self._take(len(found[0]) + 1, f"\\U{number:08x}")
            return number
        if found := _OCTAL_ESCAPE.match(self._text, self._at + 1):
            self._take(len(found[0]) + 1, f"\\U{int(found[0], 8):08x}")
            return int(found[0], 8)
        # Java has replaced quotations before it reads the rest.
        if char == "c" and self._next(4)[2:] not in ("", "\\Q"):
            controlled = self._next(3)[2:]
            self._take(3, f"\\U{ord(controlled) ^ 64:08x}")
            return ord(controlled) ^ 64
        if char in _CONTROLS:
            self._take(2, f"\\U{ord(_CONTROLS[char]):08x}")
            return ord(_CONTROLS[char])
        if not char or (char.isascii() and char.isalnum()):
            raise self._fault("an unknown escape")
        self._take(2, re.escape(char))
        return ord(char)

    def _property(self) -> None:
        name = self._next(3)[2:]
        size = 3
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise self._fault("a property that is not closed")
            name, size = self._text[self._at + 3 : end], end + 1 - self._at
        if not is_property(name):
            raise self._fault(f"an unknown property {name}")
        self.not_python = self.not_python or "\\p"
        self._take(size)

    # --- classes
    # ---------------------------------------------------------------------------------------------

    def _class(self) -> int:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._fault("too many classes in one another")
        self._take()
        if self._next() == "^":
            self._take()
        self._members()
        if self._next() != "]":
            raise self._fault("a class that is not closed")
        self._take()
        self._depth -= 1
        return 1

    def _members(self, *, is_right: bool = False) -> bool:
        """Read up to the bracket that closes the class; whether there was anything.

        ``is_right``: at the right of ``&&``, where a second ``&&`` ends it.
        """
        is_empty = True
        while char := self._next():
            if char == "]" and not is_empty:
                return True
            if char == "[":
                self.not_python = self.not_python or "a class in a class"
                self._class()
            elif self._next(2) == "&&":
                self.not_python = self.not_python or "&&"
                self._intersected(is_empty=is_empty)
            else:
                self._range()
            is_empty = False
        raise self._fault("a class that is not closed")

    def _intersected(self, *, is_empty: bool) -> None:
        self._take(2)
        if self._next() in ("]", "&"):
            # Java ignores an intersection with nothing, if there is something before it.
            if is_empty:
                raise self._fault("an intersection of nothing")
            return
        if self._next() == "[":
            self._class()
        else:
            self._range()

    def _range(self) -> None:
        if self._next(2) == "\\Q":
            raise self._fault("a quotation in a class is not supported")
        first = self._member(is_end=False)
        if first < 0 or self._next() != "-":
            return
        following = self._next(2)[1:]
        if following in ("[", "]"):
            return
        self._take()
        if self._member(is_end=True) < first:
            raise self._fault("a range that ends before it begins")

    def _member(self, *, is_end: bool) -> int:
        """Read one character of a class, or an escape for several, which is -1."""
        if self._next() != "\\":
            if not self._next():
                raise self._fault("a class that is not closed")
            char = self._next()
            # Python warns of what may become an operation on sets, as it is in Java.
            self._take(1, re.escape(char))
            return ord(char)
        if not is_end and self._next(2)[1:] in ("p", "P"):
            self._property()
            return -1
        return self._character()
