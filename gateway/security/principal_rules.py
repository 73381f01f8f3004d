"""Maps the subject of a certificate to a user name, by ``ssl.principal.mapping.rules``.

Source: ``SslPrincipalMapper``, KIP-371.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gateway.base.java.patterns import compile_pattern
from gateway.base.java.text import trim

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|\Z)",
    re.ASCII,
)
#: In a replacement: a group by name or number, or an escaped character; ``bad`` is neither.
_REFERENCE: Final = re.compile(
    r"\$\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}|\$(?P<number>[0-9]+)|\\(?P<escaped>.)|(?P<bad>[$\\])",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule; without a pattern the name stays as it is."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # Each match is replaced, the empty one behind ``.*`` too (``String.replaceAll``).
        made = self.pattern.sub(self._replaced, name)
        return {"L": made.lower(), "U": made.upper()}.get(self.case, made)

    def _replaced(self, match: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda reference: _referred(match, reference), self.replacement)


class PrincipalRules:
    """The rules in order; the first that matches applies. Raises ValueError for an invalid text."""

    def __init__(self, text: str = "DEFAULT") -> None:
        self._rules: list[_Rule] = []
        text, at = trim(text), 0
        while at < len(text):
            match = _RULE.match(text, at)
            if match is None or match.end() == at:
                raise ValueError(
                    f"no rule at character {at + 1}: DEFAULT or RULE:PATTERN/REPLACEMENT/[LU],"
                    " comma separated"
                )
            self._rules.append(_Rule() if match["default"] else _rule(match))
            at = match.end()

    def name(self, subject: str) -> str:
        """Return the user name. Raises ValueError if no rule matches: the connection is then
        refused.
        """
        for rule in self._rules:
            if (name := rule.apply(subject)) is not None:
                return name
        raise ValueError(f"no rule of ssl.principal.mapping.rules fits {subject}")


def _rule(match: re.Match[str]) -> _Rule:
    try:
        pattern = compile_pattern(match["pattern"])
    except ValueError as error:
        raise ValueError(f"the pattern {match['pattern']} is none: {error}") from None
    for reference in _REFERENCE.finditer(match["replacement"]):
        # Kafka starts with each of these, and then refuses every connection that the rule fits.
        is_lost = not pattern.groups and int((reference["number"] or "0")[0]) > 0
        if (
            is_lost
            or reference["bad"]
            or (reference["name"] or "0") not in ("0", *pattern.groupindex)
        ):
            raise ValueError(
                f"the replacement {match['replacement']} refers to no group of the pattern"
                f" {match['pattern']}: {reference[0]}"
            )
    return _Rule(pattern, match["replacement"], match["case"])


def _referred(match: re.Match[str], reference: re.Match[str]) -> str:
    """Return the referenced group; a group that does not exist stays as it is written, as in
    Kafka.
    """
    if reference["escaped"] is not None:
        return str(reference["escaped"])
    if reference["name"] is not None:
        return match[reference["name"]] or ""
    # As many digits as are the number of a group; the others are text.
    digits = reference["number"]
    for end in range(min(len(digits), 9), 0, -1):
        if (group := int(digits[:end])) <= match.re.groups:
            return (match[group] or "") + digits[end:]
    return str(reference[0])
