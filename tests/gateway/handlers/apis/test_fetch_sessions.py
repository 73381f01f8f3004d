"""Fetch sessions (KIP-227): the server keeps none, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import fetch
from kwire.protocol import ErrorCode
from tests.gateway.handlers.apis.test_fetch import BY_ID, data_of, one
from tests.gateway.handlers.world import World


@pytest.mark.parametrize("version", range(7, 19))
def test_an_incremental_fetch_has_no_session_here(version: int) -> None:
    session: dict[str, Any] = {"session_id": 77, "session_epoch": 1}
    answer = World().ask(fetch, version, max_wait_ms=500, min_bytes=1, **session)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (answer.session_id, answer.responses) == (0, [])


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_of_any_session_is_answered(epoch: int) -> None:
    session: dict[str, Any] = {"session_id": 77, "session_epoch": epoch}
    answer = World().ask(fetch, BY_ID, **one(BY_ID, 0), **session)
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert data_of(answer).error_code == 0
