"""Matches topic names with the regular expressions of consumer groups, in time that grows with the
length of the name alone.

Expressions come from clients, and Python's ``re`` can take exponential time. This is an automaton
of states that are made as they are needed, as RE2's; an expression is refused that needs too many
instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.base.slices import Slices
from gateway.groups.consumer.regex_characters import is_word
from gateway.groups.consumer.regex_syntax import (
    Assertion,
    Chars,
    Choice,
    Node,
    RegexError,
    Repeat,
    Sequence,
    parse_regex,
)

#: The most instructions of an expression. RE2/J has no such limit.
_INSTRUCTIONS_MAX: Final = 2000
#: Transitions that are kept of an expression; then they are made again.
_TRANSITIONS_MAX: Final = 10_000
#: Instructions that may be looked at to match all topics with an expression: some seconds.
_WORK_MAX: Final = 20_000_000
#: Characters that are matched between two slices.
_STEPS_PER_SLICE: Final = 200

_BEGIN: Final = ""
_MATCH: Final = 0


class TooMuchWorkError(Exception):
    """To match all topics with the expression takes too long."""


def regex_fault(text: str) -> str | None:
    """Why ``text`` is no regular expression; None if it is one."""
    try:
        Regex(text)
    except RegexError as error:
        return str(error)
    return None


def matching(regexes: Iterable[str], names: Iterable[str]) -> Slices[Mapping[str, set[str]]]:
    """The names that each expression matches as a whole. One that is none, or that would take too
    long, matches none.
    """
    found: dict[str, set[str]] = {regex: set() for regex in regexes}
    compiled = []
    for text in found:
        try:
            compiled.append(Regex(text))
        except RegexError:
            continue  # of a log of another server
        yield
    steps = 0
    for name in names:
        for regex in list(compiled):
            try:
                if regex.matches(name):
                    found[regex.text].add(name)
            except TooMuchWorkError:
                found[regex.text].clear()
                compiled.remove(regex)
            steps += len(name)
            if steps >= _STEPS_PER_SLICE:
                steps = 0
                yield
    return found


class Regex:
    """A compiled expression. Raises RegexError."""

    def __init__(self, text: str) -> None:
        self.text = text
        #: Instructions: characters and the next; an assertion and the next; the two next.
        self._program: list[tuple[object, int, int]] = [(None, 0, 0)]
        self._start = self._compile(parse_regex(text), _MATCH)
        self._transitions: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}
        self._work = 0

    def matches(self, name: str) -> bool:
        """Whether the expression matches the whole name. Raises TooMuchWorkError."""
        states, before = frozenset((self._start,)), _BEGIN
        for character in name:
            states = self._step(states, before, character)
            if not states:
                return False
            before = "w" if is_word(character) else "o"
        return _MATCH in self._reachable(states, before, "")

    def _step(self, states: frozenset[int], before: str, character: str) -> frozenset[int]:
        key = states, before, character
        after = self._transitions.get(key)
        if after is None:
            after = frozenset(
                self._program[one][1]
                for one in self._reachable(states, before, character)
                if isinstance(what := self._program[one][0], frozenset) and character in what
            )
            if len(self._transitions) >= _TRANSITIONS_MAX:
                self._transitions.clear()
            self._transitions[key] = after
        return after

    def _reachable(self, states: frozenset[int], before: str, character: str) -> set[int]:
        """All instructions that are reached without a further character."""
        seen: set[int] = set()
        left = list(states)
        while left:
            one = left.pop()
            if one in seen:
                continue
            seen.add(one)
            what, first, second = self._program[one]
            if one == _MATCH or isinstance(what, frozenset):
                continue
            if what is None:
                left += (first, second)
            elif _holds(str(what), before, character):
                left.append(first)
        self._work += len(seen)
        if self._work > _WORK_MAX:
            raise TooMuchWorkError
        return seen

    # The program is made from its end: each part is given what follows it.

    def _add(self, what: object, first: int, second: int = 0) -> int:
        if len(self._program) >= _INSTRUCTIONS_MAX:
            raise RegexError(f"expression too large: `{self.text[:100]}`")
        self._program.append((what, first, second))
        return len(self._program) - 1

    def _compile(self, node: Node, following: int) -> int:
        match node:
            case Chars(characters):
                return self._add(characters, following)
            case Assertion(kind):
                return self._add(kind, following)
            case Sequence(parts):
                for part in reversed(parts):
                    following = self._compile(part, following)
                return following
            case Choice(branches):
                first, *others = [self._compile(branch, following) for branch in branches]
                for other in others:
                    first = self._add(None, first, other)
                return first
            case Repeat(inner, least, most):
                return self._repeat(inner, least, most, following)

    def _repeat(self, inner: Node, least: int, most: int | None, following: int) -> int:
        at = following
        if most is None:
            at = self._add(None, following, following)
            self._program[at] = (None, self._compile(inner, at), following)
        else:
            for _ in range(most - least):
                at = self._add(None, self._compile(inner, at), following)
        for _ in range(least):
            at = self._compile(inner, at)
        return at


def _holds(kind: str, before: str, character: str) -> bool:
    """Whether an assertion holds between two characters: "" is the begin or the end."""
    if kind == "begin":
        return before == _BEGIN
    if kind == "end":
        return character == ""
    is_boundary = (before == "w") != (character != "" and is_word(character))
    return is_boundary == (kind == "word boundary")
