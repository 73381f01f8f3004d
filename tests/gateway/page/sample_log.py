"""The sample log of the package: its changes, its state, and the truth of ``kwire state``."""

from __future__ import annotations

import functools

from gateway.cli.state_files import load_files
from gateway.page.change_index import ChangeIndex
from gateway.server.sources.metadata_source import SAMPLE
from gateway.views.encode import ViewEncoder
from gateway.views.fold import Change
from kwire.cluster import Image
from kwire.metadata_log.at import At
from tests.gateway.views.view_reading import CLUSTER_ID, opened, pieces

ENCODER = ViewEncoder(CLUSTER_ID)


@functools.cache
def changes() -> list[Change]:
    """Every change of the log."""
    return [change for piece in pieces(opened(SAMPLE)) for change in piece.changes]


@functools.cache
def state(offset: int | None = None) -> Image:
    """The state before ``offset``, at the end for None; not to be changed."""
    return load_files([SAMPLE], At(offset=offset)).image


def index(bytes_max: int = 1 << 30) -> ChangeIndex:
    """All changes of the log, kept."""
    made = ChangeIndex(ENCODER, bytes_max)
    for change in changes():
        made.add(change)
    return made
