"""Collects the rules of all families, and selects those of a run."""

from __future__ import annotations

import fnmatch
import functools
import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from types import ModuleType

from kwire.conformance import rules as rules_of_servers
from kwire.conformance.client import rules as rules_of_clients
from kwire.conformance.log.rules import FAMILY as LOG
from kwire.conformance.rule import Family, Rule, release_number
from kwire.protocol import ApiKey


def families() -> tuple[Family, ...]:
    """Every family of rules of servers, sorted by name, and that of logs."""
    return (*_families(rules_of_servers), LOG)


def client_families() -> tuple[Family, ...]:
    """Every family of rules of clients, sorted by name."""
    return _families(rules_of_clients)


@functools.cache
def _families(package: ModuleType) -> tuple[Family, ...]:
    found = []
    for module in pkgutil.iter_modules(package.__path__):
        family = getattr(
            importlib.import_module(f"{package.__name__}.{module.name}"), "FAMILY", None
        )
        if isinstance(family, Family):
            found.append(family)
    return tuple(sorted(found, key=lambda family: family.name))


def all_rules() -> tuple[Rule, ...]:
    """Every rule of servers and logs, family by family, in the order in which the families have
    them; those of logs last.
    """
    return tuple(rule for family in families() for rule in family)


def server_rules() -> tuple[Rule, ...]:
    """Every rule of servers."""
    return tuple(rule for rule in all_rules() if rule.family != LOG.name)


def client_rules() -> tuple[Rule, ...]:
    """Every rule of clients, as :func:`all_rules`."""
    return tuple(rule for family in client_families() for rule in family)


def find_rule(rule_id: str) -> Rule | None:
    """The rule of servers or clients with this id, None if there is none."""
    every = (*all_rules(), *client_rules())
    return next((rule for rule in every if rule.id == rule_id), None)


def select(
    rules: Iterable[Rule],
    *,
    patterns: Sequence[str] = (),
    apis: Sequence[ApiKey] = (),
    as_of: str | None = None,
) -> list[Rule]:
    """Return the rules whose id matches one of ``patterns`` (shell patterns; a family's name alone
    means all its rules), that use one of ``apis``, and that hold since release ``as_of`` or before.

    An empty selection means all. Raises ValueError for an invalid release.
    """
    newest = None if as_of is None else release_number(as_of)
    return [
        rule
        for rule in rules
        if (not patterns or any(_matches(rule, pattern) for pattern in patterns))
        and (not apis or any(api in apis for api in rule.apis))
        and (newest is None or release_number(rule.since) <= newest)
    ]


def _matches(rule: Rule, pattern: str) -> bool:
    return rule.family == pattern or fnmatch.fnmatchcase(rule.id, pattern)
