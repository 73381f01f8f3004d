"""Tables and a log that does not reach back to them: told, or repaired; never taken for right."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.message import Message
from kwire.spark.source.offsets import DataLossError
from kwire.spark.table.builder import Builder
from kwire.spark.table.log import DirectoryLog, Log, ServedLog
from kwire.spark.table.store import Store, TablesError
from tests.kwire.spark.table.metadata_copies import RECORDS, image_of, life, time_of, write_copy
from tests.kwire.spark.table_rows import contents
from tests.waiting import until
from tools.gateway_process import gateway

Opened = Callable[[Path], Any]


@contextmanager
def in_place(directory: Path) -> Iterator[Log]:
    yield DirectoryLog(str(directory))


@contextmanager
def served(directory: Path) -> Iterator[Log]:
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        yield ServedLog(server.bootstrap, {})


BOTH = pytest.mark.parametrize("opened", [in_place, served])


def build(path: Path, log: Log, on_gap: Any = "fail") -> Builder:
    builder = Builder(str(path))
    builder.bring(log, on_gap)
    return builder


def brought(opened: Opened, path: Path, directory: Path, on_gap: Any = "fail") -> Builder:
    with opened(directory) as log:
        return build(path, log, on_gap)


def assert_tables_are(path: Path, records: Sequence[Message]) -> None:
    """The stored state, and the open rows of the history, are those behind ``records``."""
    found = contents(Store(str(path)).state().image)
    assert found == contents(image_of(records))


def rows(path: Path, table: str) -> list[dict[str, Any]]:
    store = Store(str(path))
    files = [file for file, _ in store.manifest.appended.get(table, [])]
    return [row for file in files for row in store.read([file]).to_pylist()]


@pytest.mark.parametrize(
    ("opened", "at", "start"), [(in_place, 30, 90), (in_place, 60, 199), (served, 80, 90)]
)
def test_log_that_starts_behind_the_tables_fails_and_is_repaired_on_request(
    opened: Opened, at: int, start: int, tmp_path: Path
) -> None:
    """At 80 the tables end among the offsets at which a server shows the snapshot's records."""
    path = tmp_path / "tables"
    brought(in_place, path, write_copy(tmp_path / "log", RECORDS, end=at))
    assert_tables_are(path, RECORDS[:at])
    before = Store(str(path)).manifest
    with opened(write_copy(tmp_path / "late", RECORDS, since=start)) as late:
        with pytest.raises(DataLossError, match=rf"back to offset {at}, where .*on_gap=\"resync\""):
            build(path, late)
        assert Store(str(path)).manifest == before
        assert build(path, late, "resync").next_offset == len(RECORDS)
        assert_tables_are(path, RECORDS)
        assert build(path, late).next_offset == len(RECORDS)


def test_start_of_a_served_log_that_moves_during_a_read_is_told(tmp_path: Path) -> None:
    """The records that were read may be those of two snapshots."""
    directory = write_copy(tmp_path / "log", RECORDS, since=90)
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        log = ServedLog(server.bootstrap, {})
        rows = log.rows(0)
        assert next(rows)
        write_copy(directory, RECORDS, since=120)
        until(lambda: ServedLog(server.bootstrap, {}).start > log.start, "the later start")
        with pytest.raises(DataLossError, match="run it again"):
            list(rows)


def test_repair_deletes_what_was_deleted_meanwhile_and_leaves_the_rest(tmp_path: Path) -> None:
    at, start, path = 60, 120, tmp_path / "tables"
    brought(in_place, path, write_copy(tmp_path / "log", RECORDS, end=at))
    late = write_copy(tmp_path / "late", RECORDS, since=start, end=start + 1)
    brought(in_place, path, late, "resync")
    was, now = (contents(image_of(RECORDS[:end])) for end in (at, start))
    gone, new = was.keys() - now.keys(), now.keys() - was.keys()
    other = {key for key in was.keys() & now.keys() if was[key] != now[key]}
    assert gone and new and other
    found = [row for row in rows(path, "changes") if row["offset"] == start - 1]
    [mark, *changed] = sorted(found, key=lambda row: row["n"])
    assert (mark["op"], mark["before"], mark["after"]) == (
        "resync",
        f'{{"nextOffset":{at}}}',
        f'{{"nextOffset":{start}}}',
    )
    assert mark["timestamp"].timestamp() * 1000 == time_of(start - 1)
    by_op = {
        op: {(r["entity"], r["key"]) for r in changed if r["op"] == op} for op in ("set", "delete")
    }
    assert by_op == {"set": new | other, "delete": gone}
    ended = [row for row in rows(path, "topics") if row["validToOffset"] == start - 1]
    assert {("topic", row["topicId"]) for row in ended} == {
        one for one in gone if one[0] == "topic"
    }


@BOTH
def test_log_that_reaches_back_to_the_tables_is_continued(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "tables"
    brought(in_place, path, write_copy(tmp_path / "log", RECORDS, end=100))
    for start in (100, 70):
        late = write_copy(tmp_path / f"late-{start}", RECORDS, since=start, end=150 + 100 - start)
        brought(opened, path, late)
        assert_tables_are(path, RECORDS[: 150 + 100 - start])
    assert not [row for row in rows(path, "changes") if row["op"] == "resync"]


@BOTH
def test_other_log_is_told_and_changes_nothing(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "tables"
    brought(in_place, path, write_copy(tmp_path / "log", RECORDS, end=100))
    before = Store(str(path)).manifest
    others = (
        (write_copy(tmp_path / "short", RECORDS, end=80), "ends before offset 100"),
        (write_copy(tmp_path / "other", RECORDS, late_ms=7), "offset 99 is not the one"),
        (write_copy(tmp_path / "wiped", RECORDS[:1]), "ends before offset 100"),
        (write_copy(tmp_path / "anew", RECORDS, cluster="anewanewanewanewanewan"), "cluster anew"),
    )
    for directory, sentence in others:
        with opened(directory) as log:
            for on_gap in ("fail", "resync"):
                with pytest.raises(TablesError, match=sentence):
                    build(path, log, on_gap)
        assert Store(str(path)).manifest == before


def test_repair_without_a_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tables"
    brought(in_place, path, write_copy(tmp_path / "log", RECORDS, end=50))
    late = write_copy(tmp_path / "late", RECORDS, since=90)
    with gateway("--source", "log", "--log-dir", str(late), "--no-snapshot-prefix") as server:
        log = ServedLog(server.bootstrap, {})
        with pytest.raises(DataLossError, match="does not reach back to offset 50"):
            build(path, log)
        with pytest.raises(TablesError, match="begins at offset 90 without a snapshot"):
            build(path, log, "resync")
    assert_tables_are(path, RECORDS[:50])


def test_repair_that_is_cut_off_is_done_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tables"
    brought(in_place, path, write_copy(tmp_path / "log", RECORDS, end=50))
    late = write_copy(tmp_path / "late", RECORDS, since=90)
    take = Builder._take

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Builder, "_take", killed)
    with pytest.raises(KeyboardInterrupt):
        brought(in_place, path, late, "resync")
    monkeypatch.setattr(Builder, "_take", take)
    assert Store(str(path)).manifest.next_offset == 90
    assert_tables_are(path, RECORDS[:90])
    later = write_copy(tmp_path / "later", RECORDS, since=120)
    with pytest.raises(DataLossError, match="back to offset 90"):
        brought(in_place, path, later)
    brought(in_place, path, late)
    assert_tables_are(path, RECORDS)


@pytest.mark.parametrize("seed", range(8))
def test_repair_leads_to_the_state_from_anywhere(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    records, path = life(f"life {seed}", 160), tmp_path / "tables"
    at, reached = rng.randint(1, 40), 0
    brought(in_place, path, write_copy(tmp_path / "log", records, end=at))
    while reached < len(records):
        start = at + rng.randint(1, 40)
        reached = min(len(records), start + rng.randint(1, 40))
        if start >= len(records):
            break
        late = write_copy(tmp_path / "log", records, since=start, end=reached)
        at = brought(in_place, path, late, "resync").next_offset
        assert_tables_are(path, records[:at])
