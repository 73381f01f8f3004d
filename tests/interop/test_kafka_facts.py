"""The facts under ``schemas/facts`` equal those that are read again from the jars of each Kafka
release.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.facts.extract import read_facts, render

pytestmark = pytest.mark.interop

FACTS = Path(__file__).parents[2] / "schemas/facts"


@pytest.mark.parametrize("release", [path.stem for path in sorted(FACTS.glob("*.json"))])
def test_facts_are_those_of_the_jars(release: str) -> None:
    assert render(read_facts(release)) == (FACTS / f"{release}.json").read_text(encoding="utf-8")


def test_facts_of_the_newest_release_are_stored() -> None:
    assert {path.stem for path in FACTS.glob("*.json")} >= {"4.3.1", "4.4.0"}
