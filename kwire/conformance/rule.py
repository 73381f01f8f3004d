"""Describes rules: a demand, where it is written, and the function that checks it.

A family is a list of rules with a common prefix. This module runs nothing: ``runner`` does.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.protocol import ApiKey

#: Takes a ``kwire.conformance.probe.Probe``; of rules of clients a
#: ``kwire.conformance.client.probe.ClientProbe``.
Check = Callable[[Any], None]

#: The release of rules that hold since the first release with the APIs they use.
SINCE_EVER: Final = "0.8"


class Level(enum.Enum):
    """Whether the source of a rule demands or recommends it (RFC 2119)."""

    MUST = "must"
    SHOULD = "should"


class Role(enum.Enum):
    """A role of a server, or that of a client. A server can have both of its roles, as ``kwire
    serve`` and combined nodes do.
    """

    BROKER = "broker"
    CONTROLLER = "controller"
    CLIENT = "client"


class Changes(enum.Enum):
    """The things on the server that a check changes."""

    NOTHING = "nothing"
    #: Topics, groups and ACLs of the prefix of the run, which are deleted again.
    OWN = "own names"
    #: Anything else: only with ``--destructive``.
    CLUSTER = "cluster"


class Need(enum.Enum):
    """A demand of a rule on the connection."""

    PLAIN_SOCKET = "a connection without TLS"
    NO_SASL = "a listener without SASL"
    SASL = "a listener with SASL"


BROKER: Final = frozenset({Role.BROKER})
CONTROLLER: Final = frozenset({Role.CONTROLLER})
EVERY_ROLE: Final = BROKER | CONTROLLER
CLIENT: Final = frozenset({Role.CLIENT})


@dataclass(frozen=True)
class Rule:
    """One thing that a server does or does not do.

    ``id`` never changes once it was released. ``says`` is the demand in one sentence, ``source``
    names the KIP, schema or class of Kafka that makes it, ``section`` the place in it. ``since`` is
    the first release of Kafka that keeps it. ``apis`` have to be offered; the first one is the one
    that is graded, at ``version`` if the rule is about one version.
    """

    id: str
    says: str
    check: Check
    source: str
    section: str = ""
    level: Level = Level.MUST
    since: str = SINCE_EVER
    roles: frozenset[Role] = EVERY_ROLE
    apis: tuple[ApiKey, ...] = ()
    version: int | None = None
    changes: Changes = Changes.NOTHING
    needs: frozenset[Need] = frozenset()
    #: Runs while no other rule does, as its result depends on what others do or on time.
    alone: bool = False

    @property
    def family(self) -> str:
        """The part of the id before the first point."""
        return self.id.partition(".")[0]

    @property
    def api(self) -> ApiKey | None:
        """The API that is graded, None for rules of the connection."""
        return self.apis[0] if self.apis else None


@dataclass
class Family:
    """The rules of one subject. A module of ``kwire.conformance.rules`` has one, named FAMILY.

    ``roles``, ``apis``, ``changes``, ``since`` and ``alone`` are those of rules that give no
    others.
    """

    name: str
    title: str
    roles: frozenset[Role] = EVERY_ROLE
    apis: tuple[ApiKey, ...] = ()
    changes: Changes = Changes.NOTHING
    since: str = SINCE_EVER
    alone: bool = False
    #: By id, in the order in which they were added.
    rules: dict[str, Rule] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules.values())

    def add(self, rule: Rule) -> None:
        """Add a rule. Raises ValueError for an id that is taken or of another family."""
        if rule.family != self.name:
            raise ValueError(f"rule {rule.id} is not of family {self.name}")
        if rule.id in self.rules:
            raise ValueError(f"two rules have the id {rule.id}")
        self.rules[rule.id] = rule

    def rule(
        self,
        name: str,
        *,
        source: str,
        section: str = "",
        level: Level = Level.MUST,
        since: str | None = None,
        roles: frozenset[Role] | None = None,
        apis: tuple[ApiKey, ...] | None = None,
        changes: Changes | None = None,
        needs: frozenset[Need] = frozenset(),
        alone: bool | None = None,
    ) -> Callable[[Check], Check]:
        """Return a decorator that adds the function as the rule ``family.name``.

        The docstring of the function is the text of the rule. The arguments are fields of Rule.
        """

        def add(check: Check) -> Check:
            says = " ".join((check.__doc__ or "").split())
            if not says:
                raise ValueError(f"rule {self.name}.{name} has no docstring")
            self.add(
                Rule(
                    f"{self.name}.{name}", says, check, source, section, level,
                    self.since if since is None else since,
                    self.roles if roles is None else roles,
                    self.apis if apis is None else apis,
                    None,
                    self.changes if changes is None else changes,
                    needs,
                    self.alone if alone is None else alone,
                )
            )  # fmt: skip
            return check

        return add


def release_number(release: str) -> tuple[int, ...]:
    """Return a release such as ``4.1`` as numbers that compare. Raises ValueError."""
    return tuple(int(part) for part in release.split("."))
