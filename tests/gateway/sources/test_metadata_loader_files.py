"""The image over segments and snapshots: cleaning, damage, gaps and missing files."""

from __future__ import annotations

import gc
import itertools
from pathlib import Path
from typing import Any

import pytest

from gateway.sources import metadata_replayer as replay
from gateway.sources.metadata_loader import MetadataLoader
from gateway.sources.metadata_replayer import MetadataReplayer
from kwire.cluster import Delta, Image
from kwire.messages.config_record import ConfigRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.metadata_log.reader import read_chunks_of_file
from tests.gateway.sources.loading import (
    follow,
    topics,
)
from tests.gateway.sources.metadata_files import (
    batch,
    topic,
    write_segment,
    write_snapshot,
)

# --- segments and snapshots
# -------------------------------------------------------------------------------------------------


def test_it_follows_over_segments_and_survives_their_cleaning(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch(0, topic(1)))
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 1)
    write_segment(tmp_path, 1, batch(1, topic(2), topic(3)))
    write_segment(tmp_path, 3, batch(3, topic(4)))
    (tmp_path / "00000000000000000000.log").unlink()
    write_snapshot(tmp_path, 1, 1, topic(1))
    assert follow(keeper, 4) > 0
    assert (topics(keeper), keeper.snapshot_loads) == (["t1", "t2", "t3", "t4"], 0)


def test_it_starts_with_the_newest_snapshot_that_is_committed_and_whole(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, *(batch(n, topic(n + 1)) for n in range(10)))
    write_snapshot(tmp_path, 2, 1, topic(1), topic(102))
    write_snapshot(tmp_path, 4, 1, topic(1), topic(104))
    write_snapshot(tmp_path, 6, 1, topic(1), topic(106), footer=False)
    write_snapshot(tmp_path, 9, 1, topic(1), topic(109))
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 8)
    assert topics(keeper) == ["t1", "t104", "t5", "t6", "t7", "t8"]
    assert keeper.snapshot_loads == 1 and keeper.records == {"TOPIC_RECORD": 4}
    (notice,) = keeper.take_notices()
    assert "00000000000000000006-0000000001.checkpoint is passed over: it has no footer" in notice
    follow(keeper, 10)
    assert "t109" not in topics(keeper), (
        "an image that is there does not begin again with a later snapshot"
    )


def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, *(batch(n, topic(n + 1)) for n in range(4)))
    path = write_snapshot(tmp_path, 2, 1, *map(topic, range(100, 200)))
    path.write_bytes(path.read_bytes()[:-40])
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 4)
    assert (
        topics(keeper) == ["t1", "t2", "t3", "t4"] and "damaged at byte" in keeper.take_notices()[0]
    )


def test_a_snapshot_that_is_installed_replaces_the_image_when_it_is_whole(tmp_path: Path) -> None:
    """The log start jumps: the records below it may be those of another history."""
    path = write_segment(tmp_path, 0, batch(0, topic(1)), batch(1, topic(66), topic(67)))
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 1)
    write_snapshot(tmp_path, 50, 7, topic(20), topic(21))
    path.unlink()
    write_segment(tmp_path, 50, batch(50, topic(22), epoch=7))
    seen, more = [], True
    while more:
        more = keeper.decode_step(51)
        keeper.apply_step()
        seen.append(topics(keeper))
    assert seen[-1] == ["t20", "t21", "t22"] and all(one == ["t1"] for one in seen[:-1])
    assert (keeper.next_offset, keeper.image.epoch, keeper.snapshot_loads) == (51, 7, 1)
    assert keeper.log_bytes == len(batch(50, topic(22))), "counted from the snapshot on"


def test_a_log_without_its_beginning_is_reported_until_a_snapshot_comes(tmp_path: Path) -> None:
    write_segment(tmp_path, 30, batch(30, topic(3)))
    write_snapshot(tmp_path, 20, 1, topic(1))
    write_snapshot(tmp_path, 31, 1, topic(1))
    keeper = MetadataLoader(tmp_path)
    assert follow(keeper, 30) == 0 and not keeper.loaded
    assert (
        "the log begins at offset 30, and no usable snapshot that ends at or below the high "
        "watermark 30" in str(keeper.problem)
    )
    assert follow(keeper, 31) == 1
    assert (topics(keeper), keeper.problem) == (["t1"], None)


def test_a_gap_in_the_log_is_reported_and_not_retried_for_ever(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 2, 1, topic(1))
    write_segment(tmp_path, 0, *(batch(n, NoOpRecord()) for n in range(5)))
    write_segment(tmp_path, 8, batch(8, topic(2)))
    keeper = MetadataLoader(tmp_path)
    assert follow(keeper, 9) == 0
    assert "offsets 5 to 7 are missing" in str(keeper.problem)


def test_a_log_that_is_gone_leaves_the_image_as_it_was(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, batch(0, topic(1)))
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 1)
    path.unlink()
    write_segment(tmp_path, 50, batch(50, topic(2)))
    assert follow(keeper, 51) == 0
    assert "begins at offset 50 and does not go on at 1" in str(keeper.problem) and topics(
        keeper
    ) == ["t1"]


@pytest.mark.parametrize(
    ("error", "problem"),
    [(FileNotFoundError(2, "gone"), None), (PermissionError(13, "denied"), "denied")],
)
def test_a_snapshot_that_cannot_be_opened(
    error: OSError, problem: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was cleaned up just now is not missed; anything else is told, and tried again from
    the beginning.
    """
    write_segment(tmp_path, 0, batch(0, topic(1)), batch(1, topic(2)))
    write_snapshot(tmp_path, 1, 1, topic(1), topic(100))

    def fails(path: str) -> Any:
        yield from itertools.islice(read_chunks_of_file(path), 2)
        raise error

    keeper = MetadataLoader(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(replay, "read_chunks_of_file", fails)
        keeper.decode_step(2)
        assert (
            not keeper.apply_step()
            and (keeper.problem.reason if keeper.problem else None) == problem
        )
    follow(keeper, 2)
    assert (topics(keeper), keeper.problem, keeper.snapshot_loads) == (
        ["t1", "t100", "t2"],
        None,
        1,
    )


def test_an_empty_or_missing_directory_waits(tmp_path: Path) -> None:
    keeper = MetadataLoader(tmp_path / "none")
    assert follow(keeper, 5) == 0 and "No such file" in str(keeper.problem)
    (tmp_path / "none").mkdir()
    assert follow(keeper, 0) == 0
    write_segment(tmp_path / "none", 0, batch(0, topic(1)))
    assert follow(keeper, 1) == 1 and keeper.problem is None


def test_a_bug_is_loud_and_costs_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece of which some records were folded when something unforeseen was raised is not left
    half folded.
    """
    write_segment(tmp_path, 0, batch(0, topic(1)), batch(1, topic(2)), batch(2, topic(3)))
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 1)
    real = MetadataReplayer.step

    def fails(self: Any, below: int) -> bool:
        real(self, below)
        raise RuntimeError("unforeseen")

    with monkeypatch.context() as patched:
        patched.setattr(MetadataReplayer, "step", fails)
        with pytest.raises(RuntimeError):
            keeper.decode_step(3)
        assert keeper.apply_step() is False and topics(keeper) == ["t1"]
    follow(keeper, 3)
    assert topics(keeper) == ["t1", "t2", "t3"] and gc.isenabled()


def test_configs_change_in_the_image_only_when_a_step_is_applied(tmp_path: Path) -> None:
    def config(value: str | None) -> ConfigRecord:
        return ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value=value)

    write_segment(
        tmp_path, 0, *(batch(n, config(value)) for n, value in enumerate(["1", "2", None]))
    )
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 1)
    for high_watermark, before, after in (
        (2, {(2, "a"): {"retention.ms": "1"}}, {(2, "a"): {"retention.ms": "2"}}),
        (3, {(2, "a"): {"retention.ms": "2"}}, {}),
    ):
        keeper.decode_step(high_watermark)
        assert keeper.image.configs == before
        keeper.apply_step()
        assert keeper.image.configs == after


Heard = list[tuple[list[str] | None, list[str]]]


def subscribed(keeper: MetadataLoader) -> tuple[Heard, Heard]:
    """The steps that are prepared, and those that are published: the topics that a step changes,
    None for another image, and those of the image.
    """
    prepared, published = Heard(), Heard()

    def prepare(delta: Delta | None, image: Image) -> None:
        changed = None if delta is None else list(delta.changed_keys("topic_ids"))
        prepared.append((changed, sorted(image.topic_ids)))

    def on_update(delta: Delta | None, image: Image) -> None:
        changed = None if delta is None else delta.changed_topics()
        published.append((changed, sorted(image.topic_ids)))

    keeper.subscribe(on_update, prepare)
    return prepared, published


def test_subscribers_hear_of_the_first_image_and_of_each_change(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch(0, topic(1)), batch(1, topic(2)), batch(2, NoOpRecord()))
    keeper = MetadataLoader(tmp_path)
    prepared, published = subscribed(keeper)
    assert follow(keeper, 1) == 1
    assert prepared == [(None, ["t1"])] and published[-1] == (None, ["t1"])
    assert all(one == ([], []) for one in published[:-1]), "steps before the image is whole"
    prepared.clear()
    published.clear()
    keeper.decode_step(2)
    assert prepared == [(["t2"], ["t1"])] and not published, "in the thread, before it is applied"
    keeper.apply_step()
    assert [*keeper.publish()] == [None]
    follow(keeper, 3)
    assert published == [(["t2"], ["t1", "t2"]), ([], ["t1", "t2"])]


def test_subscriber_hears_of_a_step_that_fails(tmp_path: Path) -> None:
    keeper = MetadataLoader(tmp_path / "none")
    _, published = subscribed(keeper)
    follow(keeper, 5)
    assert keeper.problem is not None and published == [([], [])]


def test_subscriber_that_fails_is_given_the_whole_image_and_the_others_miss_nothing(
    tmp_path: Path,
) -> None:
    write_segment(tmp_path, 0, *(batch(number, topic(number)) for number in range(4)))
    keeper = MetadataLoader(tmp_path)
    before, failing, after = list[bool](), list[bool](), list[bool]()
    bugs: list[Exception] = []

    def fail(delta: Delta | None, image: Image) -> None:
        failing.append(delta is None)
        if bugs:
            raise bugs.pop()

    keeper.subscribe(lambda delta, image: before.append(delta is None))
    keeper.subscribe(fail)
    keeper.subscribe(lambda delta, image: after.append(delta is None))
    follow_to_the_first_image(keeper)
    for heard in (before, failing, after):
        assert heard[-1] and not any(heard[:-1])
        heard.clear()
    bugs += [ZeroDivisionError("a bug"), ZeroDivisionError("another")]
    errors = []
    for high_watermark in (2, 3, 4, 4):
        keeper.decode_step(high_watermark)
        keeper.apply_step()
        errors.append([type(error) for error in keeper.publish() if error is not None])
    assert errors == [[ZeroDivisionError], [ZeroDivisionError], [], []]
    assert failing == [False, True, True, False]
    assert before == after == [False] * 4


def follow_to_the_first_image(keeper: MetadataLoader) -> None:
    while not keeper.loaded:
        keeper.decode_step(1)
        keeper.apply_step()
        assert not any(keeper.publish())
