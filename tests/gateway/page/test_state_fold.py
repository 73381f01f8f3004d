"""The state before any offset is that of ``kwire state``, whatever the batches are read in."""

from __future__ import annotations

import pytest

from gateway.page.state_fold import StateFold
from gateway.server.sources.metadata_source import SAMPLE
from kwire.cluster.shell_view import shell_view
from tests.gateway.page.sample_log import state
from tests.gateway.views.view_reading import opened, served


@pytest.mark.parametrize("size", [1, 1 << 16])
@pytest.mark.parametrize("offset", [0, 1, 12, 333, 334, 700, 1057])
def test_state_before_an_offset_is_that_of_kwire_state(offset: int, size: int) -> None:
    log = opened(SAMPLE)
    fold = StateFold(log.log_start_offset, offset)
    while fold.next_offset < offset:
        fold.take(served(log, fold.next_offset, size))
    assert fold.next_offset == offset
    found, expected = shell_view(fold.image), shell_view(state(offset))
    assert found == expected
