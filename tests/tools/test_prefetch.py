"""Parts are fetched one after the other, whether those before could be had or not."""

from __future__ import annotations

import pytest

from kwire.jars.maven import MavenError
from tools import prefetch


def test_part_that_fails_is_reported_and_the_next_is_fetched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise MavenError("out of reach")

    monkeypatch.setattr(prefetch, "_parts", lambda: {"one": fail, "two": lambda: None})
    monkeypatch.setattr(prefetch, "run_behind_others", lambda: None)
    prefetch.main()
    one, two = capsys.readouterr().out.splitlines()
    assert "one is missing: out of reach" in one and "two is there" in two
