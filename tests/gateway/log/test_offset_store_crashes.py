"""The store of committed offsets after kills, faults and truncations."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.log import offset_store
from gateway.log.end_checkpoint import END_CHECKPOINT, read_end
from gateway.log.offset_store import SEGMENT, OffsetStore, StoreLockedError
from tests.gateway.log.offset_store_files import (
    NOW_MS,
    contents,
    open_store,
)


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from gateway.log.offset_store import OffsetStore
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

        patched.setattr(OffsetStore, "_read", fail)
        with pytest.raises(OSError, match="cannot be read"):
            open_store(tmp_path)
    open_store(tmp_path).close()


def test_a_lock_that_cannot_be_had_for_other_reasons_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr("gateway.log.offset_store.fcntl.flock", fail)
    with pytest.raises(OSError, match="no locks here") as raised:
        open_store(tmp_path)
    assert not isinstance(raised.value, StoreLockedError)


def test_something_that_only_looks_like_a_batch_is_passed_over(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append([(b"a", b"1")], NOW_MS)
    first = (tmp_path / SEGMENT).read_bytes()
    store.append([(b"b", b"2" + offset_store._MARK + b"2")], NOW_MS)
    store.append([(b"c", b"3")], NOW_MS)
    store.close()
    data = (tmp_path / SEGMENT).read_bytes()
    second = bytearray(data[len(first) :])
    second[20] ^= 1  # its checksum, and within it stands what looks like the head of a batch
    # A whole batch, but an old one: its offset has been.
    (tmp_path / SEGMENT).write_bytes(first + bytes([1]) * 40 + first + bytes(second))
    store = open_store(tmp_path)
    assert store.records() == [(b"a", b"1"), (b"c", b"3")]
    assert "damaged" in store.problems[0]
    store.close()


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
        assert f"ends at offset {batches}, but was synced up to 3" in problem
        assert self.problems(tmp_path) == []

    def test_removed_file_is_reported(self, tmp_path: Path) -> None:
        self.written(tmp_path)
        (tmp_path / SEGMENT).unlink()
        assert len(self.problems(tmp_path)) == 1

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

    @pytest.mark.parametrize("text", [b"", b"3", b"x\n", b"-1\n", b"9" * 100, b"\xff\n"])
    def test_checkpoint_that_cannot_be_read_says_nothing(self, tmp_path: Path, text: bytes) -> None:
        self.written(tmp_path)
        (tmp_path / END_CHECKPOINT).write_bytes(text)
        (tmp_path / SEGMENT).unlink()
        assert self.problems(tmp_path) == []

    def test_checkpoint_that_cannot_be_written_keeps_nothing_from_working(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / (END_CHECKPOINT + ".tmp")).mkdir()
        self.written(tmp_path)
        assert contents(tmp_path) == {b"k0": b"v", b"k1": b"v", b"k2": b"v"}

    def test_end_is_written_down_while_it_runs(self, tmp_path: Path) -> None:
        store = open_store(tmp_path)
        store.append([(b"a", b"1")], NOW_MS)
        store.append([(b"b", b"1")], NOW_MS + 10)
        store.append([(b"c", b"1")], NOW_MS + 5000)
        assert read_end(tmp_path) == 3
        store.close()
