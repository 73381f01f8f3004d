"""The observer's answers to what quorums were measured to say, as texts.
``KWIRE_REWRITE_TRANSCRIPTS=1`` writes them anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.gateway.quorum.observer.transcript import replay

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
REWRITE = bool(os.environ.get("KWIRE_REWRITE_TRANSCRIPTS"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_is_replayed_unchanged(path: Path) -> None:
    was = path.read_text(encoding="utf-8")
    now = replay(was)
    if REWRITE:
        path.write_text(now, encoding="utf-8")
    else:
        assert now == was


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 30
