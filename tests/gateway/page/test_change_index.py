"""The changes that the timeline shows: rows in pages, changes in full, counts of the state."""

from __future__ import annotations

import json

import pytest

from gateway.page import change_index
from gateway.page.change_index import ChangeIndex
from gateway.page.timeline_rows import (
    KIND_NAMES,
    line_of,
    offset_text,
    parse_offset,
    row_of,
    what_changed,
)
from kwire.cluster import Image
from kwire.cluster.entities import BY_KIND
from tests.gateway.page.sample_log import ENCODER, changes, index, state

#: Changes of a block in these tests: the sample log has few.
BLOCK = 100


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_index, "BLOCK_CHANGES", BLOCK)


def all_rows(kept: ChangeIndex, rows_max: int) -> list[bytes]:
    """The rows of all pages, as the page fetches them."""
    rows, after = list[bytes](), -1
    while True:
        found = kept.rows(after, rows_max)
        rows += found.texts
        after = found.last
        if not found.more:
            return rows


@pytest.mark.parametrize("rows_max", [1, BLOCK, 5000])
def test_pages_have_every_row_once(rows_max: int) -> None:
    kept = index()
    assert all_rows(kept, rows_max) == [row_of(change) for change in changes()]
    assert kept.rows(kept.last, rows_max).texts == []


def test_rows_continue_after_any_offset() -> None:
    kept, every = index(), changes()
    for at in (0, 1, BLOCK - 1, BLOCK, len(every) - 2):
        found = kept.rows(every[at].offset, 10)
        assert found.texts[0] == row_of(every[at + 1])


def test_a_change_in_full_is_the_record_of_the_view() -> None:
    kept = index()
    for change in changes()[:: len(changes()) // 50]:
        assert kept.line(change.offset) == line_of(change, ENCODER)
    assert kept.line(changes()[0].offset - 1) is None
    assert kept.line(1 << 62) is None


def test_oldest_blocks_go_and_start_says_so() -> None:
    kept = index(bytes_max=1)
    assert kept.start > changes()[0].offset
    assert kept.line(changes()[0].offset) is None
    assert kept.rows(-1, 10).texts[0] == row_of(
        next(change for change in changes() if change.offset >= kept.start)
    )
    assert kept.counts == index().counts


def counted(image: Image) -> dict[str, int]:
    """The figures of a state, by its entities."""
    partitions = [one for some in image.partitions.values() for one in some.values()]
    return {
        "topic": len(image.topics),
        "partition": len(partitions),
        "leaderless": sum(one.leader < 0 for one in partitions),
        "under_replicated": sum(len(one.isr) < len(one.replicas) for one in partitions),
        "broker": len(image.brokers),
        "fenced": sum(one.fenced for one in image.brokers.values()),
        "config": len(image.configs),
        "acl": len(image.acls),
        "user": len(image.scram),
        "quota": len(image.quotas),
        "token": len(image.tokens),
    }


def test_counts_are_those_of_the_state() -> None:
    counts = index().counts
    assert {name: counts[name] for name in counted(state())} == counted(state())


def test_rows_have_short_names_and_no_secret() -> None:
    rows = [json.loads(row) for row in all_rows(index(), 5000)]
    names = {KIND_NAMES[row[3]]: row[5] for row in rows}
    assert names["partition"].rpartition("-")[2].isdigit()
    assert names["broker"].startswith("broker ")
    assert all(row[4] in "cudr" and isinstance(row[5], str) for row in rows)


@pytest.mark.parametrize("offset", [0, 5, (123 << 24) + 7, (1 << 62) + 1])
def test_offsets_pass_through_their_text(offset: int) -> None:
    assert parse_offset(offset_text(offset)) == offset


def test_no_offset_has_no_text() -> None:
    assert offset_text(-1) == ""


def test_rows_say_what_changed() -> None:
    texts = {
        (KIND_NAMES[row[3]], row[4], row[-1])
        for row in map(json.loads, all_rows(index(), 5000))
        if isinstance(row[-1], str)
    }
    kinds = {kind for kind, op, text in texts if op in "cu" and text}
    assert {"config", "broker", "feature", "user", "quota"} <= kinds
    changed = {text for kind, op, text in texts if kind == "config" and op == "u"}
    assert any(" \u2192 " in text for text in changed)
    assert all(len(text) <= 160 for _, _, text in texts)


def test_row_of_a_value_that_is_long_or_secret_is_short_and_redacted() -> None:
    kind = BY_KIND["config"]
    secret, plain, new = "ssl.keystore.password", "log.retention.ms", "num.io.threads"
    before = (4, "1", {secret: "geheim", plain: "1"})
    after = (4, "1", {secret: "secret", plain: "9" * 500, new: "8"})
    text = what_changed(kind, before, after)
    assert "geheim" not in text and "secret" not in text
    assert text.startswith(f"{plain} 1 \u2192 999") and len(text) <= 160 and new in text
    assert what_changed(kind, None, before) == f"{plain} 1, {secret} (redacted)"
    assert what_changed(kind, before, None) == ""
