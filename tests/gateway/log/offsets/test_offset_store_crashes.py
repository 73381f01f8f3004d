"""The store of committed offsets after kills, faults and truncations."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.log.files.high_watermark_file import FILE_NAME as SYNCED_END
from gateway.log.files.high_watermark_file import format_slot, parse_slot
from gateway.log.offsets.offset_store import OffsetStore
from tests.gateway.log.crash_disk import (
    CrashDisk,
    Op,
    RecordingDisk,
    State,
    write_state,
)
from tests.gateway.log.offset_store_files import (
    NOW_MS,
    SEGMENT,
    contents,
    open_store,
    records_in,
)


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from gateway.log.offsets.offset_store import OffsetStore
        store = OffsetStore(Path(sys.argv[1]), compact_bytes_min=3000)
        first = len(store.records())
        for i in range(first, first + 100000):
            store.append([(b"key-%d" % i, b"x"), (b"newest", b"%d" % i)], 1)
            print(i, flush=True)
            if store.needs_compaction:
                store.compact()
        """
    )
    known: dict[bytes, bytes] = {}
    for kills in (1, 20, 45):
        with subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            for _ in range(kills):
                i = int(child.stdout.readline())
                known |= {b"key-%d" % i: b"x", b"newest": b"%d" % i}
            os.kill(child.pid, signal.SIGKILL)
            for line in child.stdout:
                if line.endswith(b"\n"):
                    known |= {b"key-%d" % int(line): b"x", b"newest": b"%d" % int(line)}
        kept = contents(tmp_path)
        # One more may be on disk than was told.
        assert known.items() - {(b"newest", known[b"newest"])} <= kept.items()
        assert int(kept[b"newest"]) - int(known[b"newest"]) in (0, 1)


@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.lists(
                st.tuples(st.binary(min_size=1, max_size=2), st.none() | st.binary(max_size=30)),
                min_size=1,
                max_size=5,
            ),
            st.just("compact"),
            st.just("reopen"),
        ),
        max_size=20,
    )
)
def test_it_is_a_dict(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    directory = tmp_path_factory.mktemp("store")
    model: dict[bytes, bytes] = {}
    store = open_store(directory)
    for step in steps:
        if step == "compact":
            store.compact()
        elif step == "reopen":
            store.close()
            store = open_store(directory)
        else:
            store.append(step, NOW_MS)
            for key, value in step:
                model.pop(key, None)
                if value is not None:
                    model[key] = value
        assert store.records() == list(model.items())
        assert store.problems == []
    store.close()


def test_a_failure_while_opening_releases_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:

        def fail(*_: Any) -> None:
            raise OSError(errno.EIO, "cannot be read")

        patched.setattr(OffsetStore, "_load", fail)
        with pytest.raises(OSError, match="cannot be read"):
            open_store(tmp_path)
    open_store(tmp_path).close()


def test_something_that_only_looks_like_a_batch_is_passed_over(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append([(b"a", b"1")], NOW_MS)
    first = (tmp_path / SEGMENT).read_bytes()
    store.append([(b"b", b"2\0\0\0\0\2" + b"2")], NOW_MS)
    second_ends = (tmp_path / SEGMENT).stat().st_size
    store.append([(b"c", b"3")], NOW_MS)
    store.close()
    data = (tmp_path / SEGMENT).read_bytes()
    second = bytearray(data[len(first) : second_ends])
    second[20] ^= 1  # its checksum, and within it stands what looks like the head of a batch
    # A whole batch, but an old one: its offset has been.
    (tmp_path / SEGMENT).write_bytes(
        first + bytes([1]) * 40 + first + bytes(second) + data[second_ends:]
    )
    store = open_store(tmp_path)
    assert store.records() == [(b"a", b"1"), (b"c", b"3")]
    assert "lost bytes" in store.problems[0]
    store.close()


def test_batch_with_records_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append([(b"a", b"1")], NOW_MS)
    store.close()
    data = bytearray((tmp_path / SEGMENT).read_bytes())
    data[-1] = 9  # more headers than there are
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    (tmp_path / SEGMENT).write_bytes(data)
    store = open_store(tmp_path)
    assert store.records() == [] and "records cannot be read" in store.problems[0]
    store.close()


class Life:
    """A store that is written to, compacted, closed and opened again; its disk notes what has been
    promised.

    A promise is what was acknowledged, and what is being written.
    """

    def __init__(self, directory: Path) -> None:
        self.disk = RecordingDisk(directory)
        self._directory = directory / "offsets"
        self._model: dict[bytes, bytes] = {}
        self._store = open_store(self._directory, disk=self.disk)
        for turn in range(6):
            self._write({b"a": b"%d" % turn, b"k%d" % (turn % 3): b"v%d" % turn})
            self._write({b"k%d" % ((turn + 1) % 3): None, b"b": b"%d" % turn})
            if turn % 3 == 1:
                self._store.compact()
            if turn % 4 == 2:
                self._store.close()
                self._store = open_store(self._directory, disk=self.disk)
        self._store.close()

    def _write(self, values: dict[bytes, bytes | None]) -> None:
        after = {key: value for key, value in (self._model | values).items() if value is not None}
        self.disk.ack((self._model, after))
        self._store.append(list(values.items()), NOW_MS + 10_000 * len(self.disk.ops))
        self._model = after
        self.disk.ack((after, after))


@pytest.fixture(scope="module")
def ops(root: Path) -> list[Op]:
    (root / "life").mkdir()
    return Life(root / "life").disk.ops


def crashes(ops: list[Op], *, power: bool) -> Iterator[tuple[State, Any]]:
    """Yield what a crash behind each operation may leave, and the promise at that instant."""
    promise: Any = ({}, {})
    disk, rand = CrashDisk(), random.Random(11)
    for op in ops:
        if op.kind == "ack":
            promise = op.value
            continue
        disk.apply(op)
        for state in disk.lost_power(rand) if power else disk.killed(op):
            yield state, promise


def survives(directory: Path, state: State, promise: Any) -> None:
    """The store has what was acknowledged, and goes on."""
    shutil.rmtree(directory, ignore_errors=True)
    write_state(directory, state)
    store = open_store(directory / "offsets")
    found = dict(store.records())
    assert found in promise
    assert not any("lost" in problem for problem in store.problems)
    store.append([(b"more", b"!")], NOW_MS)
    store.close()
    store = open_store(directory / "offsets")
    assert dict(store.records()) == {**found, b"more": b"!"} and store.problems == []
    store.close()
    assert not list((directory / "offsets").glob("*.tmp"))


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_behind_any_operation_keeps_what_was_acknowledged(
    ops: list[Op], root: Path, power: bool
) -> None:
    tried = 0
    for state, promise in crashes(ops, power=power):
        survives(root / "state", state, promise)
        tried += 1
    assert tried > 140


@pytest.mark.parametrize(
    "forgotten",
    [
        lambda op: op.kind == "sync" and op.path.suffix == ".log",
        lambda op: op.kind == "sync" and op.path.suffix == ".tmp",
        lambda op: op.kind == "sync directory",
    ],
)
def test_a_store_that_forgot_to_sync_would_be_found_out(
    ops: list[Op], root: Path, forgotten: Callable[[Op], bool]
) -> None:
    with pytest.raises(AssertionError):
        for state, promise in crashes([op for op in ops if not forgotten(op)], power=True):
            survives(root / "state", state, promise)


class TestLogThatEndsBeforeWhatWasSynced:
    """The file is cut from outside at a record's end, emptied or removed: no checksum can tell, the
    checkpoint beside it does.
    """

    def written(self, directory: Path) -> list[int]:
        """A store of three batches, closed; gives their ends in bytes."""
        store, path, ends = open_store(directory), directory / SEGMENT, []
        for i in range(3):
            store.append([(b"k%d" % i, b"v")], NOW_MS + i)
            ends.append(path.stat().st_size)
        store.close()
        return ends

    def problems(self, directory: Path) -> list[str]:
        store = open_store(directory)
        store.close()
        return store.problems

    @pytest.mark.parametrize("batches", [0, 1, 2])
    def test_file_cut_at_the_end_of_a_record_is_reported_once(
        self, tmp_path: Path, batches: int
    ) -> None:
        ends = self.written(tmp_path)
        os.truncate(tmp_path / SEGMENT, ends[batches - 1] if batches else 0)
        (problem,) = self.problems(tmp_path)
        assert f"offsets {batches} to 2 are missing" in problem and "auto.offset.reset" in problem
        assert self.problems(tmp_path) == []

    def test_removed_file_is_reported(self, tmp_path: Path) -> None:
        self.written(tmp_path)
        (tmp_path / SEGMENT).unlink()
        assert len(self.problems(tmp_path)) == 1

    @pytest.mark.parametrize("number", [0, 1])
    def test_removed_segment_is_reported_once_and_the_others_stay(
        self, tmp_path: Path, number: int
    ) -> None:
        self.written(tmp_path)
        store = open_store(tmp_path)
        store.compact()
        store.append([(b"k3", b"v")], NOW_MS + 60_000)
        store.close()
        sorted(tmp_path.glob("*.log"))[number].unlink()
        (problem,) = self.problems(tmp_path)
        assert "missing" in problem and "auto.offset.reset" in problem
        lost = {b"k0", b"k1", b"k2"} if number == 0 else {b"k3"}
        assert contents(tmp_path).keys() == {b"k0", b"k1", b"k2", b"k3"} - lost
        store = open_store(tmp_path)
        store.append([(b"k4", b"v")], NOW_MS + 60_000)
        store.close()
        assert records_in(tmp_path)[-1].offset == 4, "no offset is given twice"
        assert self.problems(tmp_path) == []

    def test_whole_file_is_not_reported_whatever_was_deleted_and_rewritten(
        self, tmp_path: Path
    ) -> None:
        self.written(tmp_path)
        store = open_store(tmp_path)
        store.append([(b"k2", None), (b"k1", None)], NOW_MS + 60_000)
        store.compact()
        store.close()
        assert self.problems(tmp_path) == []
        store = open_store(tmp_path)
        store.append([(b"k0", None)], NOW_MS + 120_000)
        store.compact()
        store.close()
        assert self.problems(tmp_path) == []

    @pytest.mark.parametrize("data", [b"", b"3", b"\xff" * 8192, format_slot(3)[:-1]])
    def test_synced_end_that_cannot_be_read_keeps_nothing_from_working(
        self, tmp_path: Path, data: bytes
    ) -> None:
        self.written(tmp_path)
        (tmp_path / SYNCED_END).write_bytes(data)
        assert contents(tmp_path) == {b"k0": b"v", b"k1": b"v", b"k2": b"v"}

    def test_end_is_written_down_while_it_runs(self, tmp_path: Path) -> None:
        store = open_store(tmp_path)
        for at, key in ((0, b"a"), (10, b"b"), (5000, b"c"), (5010, b"d")):
            store.append([(key, b"1")], NOW_MS + at)
        data = (tmp_path / SYNCED_END).read_bytes()
        assert max(parse_slot(data), parse_slot(data[4096:])) == 3
        store.close()
