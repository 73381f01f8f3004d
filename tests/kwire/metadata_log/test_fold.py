"""The additions of the fold to the loader: times, and sentences for bad records."""

from __future__ import annotations

import pytest

from kwire.cluster import Image
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.topic_record import TopicRecord
from kwire.metadata_log.at import At
from kwire.metadata_log.errors import MetadataLogError
from kwire.metadata_log.fold import Fold, State
from kwire.records import encode_metadata_record


def test_a_state_has_the_time_of_its_last_record() -> None:
    fold = Fold("here", At())
    assert fold.state().time is None
    fold.take(0, 1, 5000, encode_metadata_record(TopicRecord(name="a"), 0))
    assert (fold.state().time, fold.state().image.next_offset) == ("1970-01-01T00:00:05.000Z", 1)
    fold.skip_to(2, 1, 6000)
    assert (fold.state().timestamp, fold.state().image.next_offset) == (6000, 2)
    assert State(Image()).notes == []


def test_level_that_this_release_does_not_know_is_noted() -> None:
    fold = Fold("here", At())
    level = FeatureLevelRecord(name="metadata.version", feature_level=60)
    fold.take(0, 1, 5000, encode_metadata_record(level, 0))
    [note] = fold.state().notes
    assert note.startswith("here: metadata.version is finalized at level 60")


@pytest.mark.parametrize("value", [None, b"", b"\x07junk", b"\x01\x7f\x00"])
def test_invalid_metadata_record_is_reported_with_its_offset(value: bytes | None) -> None:
    with pytest.raises(MetadataLogError, match=r"here: offset 8: .*state before offset 8 "):
        Fold("here", At()).take(8, 1, 0, value)
