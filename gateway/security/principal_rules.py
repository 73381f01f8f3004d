"""Maps the subject of a certificate to a user name, by ``ssl.principal.mapping.rules``.

Source: ``SslPrincipalMapper``, KIP-371.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)
#: In a replacement: a group, or an escaped character.
_REFERENCE: Final = re.compile(r"\$(?P<group>[0-9])|\\(?P<escaped>.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule; without a pattern the name stays as it is."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        made = _REFERENCE.sub(lambda reference: _referred(match, reference), self.replacement)
        return {"L": made.lower(), "U": made.upper()}.get(self.case, made)


class PrincipalRules:
    """The rules in order; the first that matches applies. Raises ValueError for an invalid text."""

    def __init__(self, text: str = "DEFAULT") -> None:
        self._rules: list[_Rule] = []
        at = 0
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
        pattern = re.compile(match["pattern"])
    except re.error as error:
        raise ValueError(f"the pattern {match['pattern']} is none: {error}") from None
    return _Rule(pattern, match["replacement"], match["case"])


def _referred(match: re.Match[str], reference: re.Match[str]) -> str:
    """Return the referenced group; a group that does not exist stays as it is written, as in
    Kafka.
    """
    if reference["escaped"] is not None:
        return str(reference["escaped"])
    group = int(reference["group"])
    return (match[group] or "") if group <= match.re.groups else str(reference[0])
