"""Writes docs/conformance-faults.md from the faults that the tests run.

    python -m tests.conformance_faults.page

``test_page.py`` compares the page with these lists, each row of which a test demands to be found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kwire.conformance.catalog import client_families, families
from kwire.conformance.rule import Family
from tests.conformance_faults.all_faults import PROXY_FAULTS
from tests.conformance_faults.mutants import MUTANTS
from tests.conformance_faults.wrong_forms import WRONG_FORMS
from tests.kwire.conformance.client.small.fault_table import CLIENT_FAULTS, SENTENCES
from tests.kwire.conformance.log import (  # noqa: F401  they define the kinds
    falsified_batches,
    falsified_files,
    falsified_records,
    falsified_snapshots,
)
from tests.kwire.conformance.log.falsification import KINDS, Kind

PAGE: Final = Path(__file__).parents[2] / "docs" / "conformance-faults.md"
_HEAD: Final = """\
# Faults that the rules find

This page says for each rule of `kwire conform` which fault it finds. The tests put the faults in,
one at a time, and demand that the rule fails with the fault and passes without it:

```bash
python -m pytest tests/conformance_faults tests/kwire/conformance
```

* *Faults of a proxy* change requests and answers between the rules and a server.
* *Mutants* are bugs in kwire's own server, each in a live server of its own.
* *Wrong forms*: for the rules that are alike for all APIs, one server answers every request with
  a byte too many, and one closes every connection.
* *Falsified logs* are copies of logs that Kafka wrote, each falsified in one place.
* *Faults of clients* are bugs in small clients, for the rules that grade clients.

`python -m tests.conformance_faults.page` writes this page from the lists that the tests run, and a
test compares it.
"""


def copies(kind: Kind) -> int:
    """The copies of logs that are falsified in one way."""
    return len(kind.logs) * kind.times


_KINDS: Final = (
    ("Rules", None),
    ("Faults of a proxy", [rule for _, rule, _ in PROXY_FAULTS]),
    ("Mutants", [one.rule for one in MUTANTS.values()]),
    ("Wrong forms", [rule.id for rule, _ in WRONG_FORMS]),
    ("Falsified logs", [kind.rule_id for kind in KINDS for _ in range(copies(kind))]),
    ("Faults of clients", [one.rule for one in CLIENT_FAULTS]),
)


def page() -> str:
    """The text of the page."""
    heads = ("Family", *(name for name, _ in _KINDS), "Rules without a fault")
    mutants = ((one.sentence, f"`{one.rule}`") for one in MUTANTS.values())
    clients = ((one.kind, SENTENCES[one.fault], f"`{one.rule}`") for one in CLIENT_FAULTS)
    logs = (
        (_sentence(kind.name), copies(kind), f"`{kind.rule_id}`")
        for kind in sorted(KINDS, key=lambda kind: kind.rule_id)
    )
    proxied = ((_sentence(name), f"`{rule}`") for name, rule, _ in PROXY_FAULTS)
    parts = (
        _HEAD,
        _section("Families", heads, _families()),
        _section("Mutants of kwire's server", ("Mutant", "Rule"), mutants),
        _section("Falsified logs", ("Falsification", "Copies", "Rule"), logs),
        _section("Faults of clients", ("Client", "Fault", "Rule"), clients),
        _section("Faults of a proxy", ("Fault", "Rule"), proxied),
    )
    return "\n".join(parts)


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"## {title}", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join([*lines, ""])


def _sentence(name: str) -> str:
    return name[:1].upper() + name[1:] + "."


def _families() -> Iterator[Sequence[object]]:
    totals = [0] * len(_KINDS)
    for family in every_family():
        counts = [
            len(family.rules if rules is None else [one for one in rules if one in family.rules])
            for _, rules in _KINDS
        ]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        yield f"`{family.name}`", *counts, ", ".join(map("`{}`".format, untried(family))) or "none"
    yield "all", *totals, ""


def every_family() -> tuple[Family, ...]:
    """The families of servers, logs and clients."""
    return (*families(), *client_families())


def untried(family: Family) -> list[str]:
    """The ids of the rules of a family that no fault trips."""
    tried = {rule for _, rules in _KINDS for rule in rules or ()}
    return [rule for rule in family.rules if rule not in tried]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
