"""Fixtures of the tests of the server."""

from __future__ import annotations

import pytest

from gateway.server.scheduling import sliced_executor


@pytest.fixture
def one_slice_for_each_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every decision is made at once: these tests run no task that would continue one."""
    monkeypatch.setattr(sliced_executor, "SLICE_S", 60.0)
