"""Voters' lives, crashed at every file operation into every state that may be left.

Run by ``python -m tests.gateway.log.voter_crashes``. Each state is recovered by opening the store,
and checked against what had been promised by then. One line at the end counts what was done; a
failure prints the line that replays it.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from gateway.log.files.errors import NotFormatted
from gateway.log.metadata.formatting import format_directory
from gateway.log.metadata.raft_store import RaftStore
from gateway.log.metadata.stored_facts import StoredFacts
from gateway.log.partition.log_settings import LogSettings
from tests.gateway.log.crash_disk import Op, QuietDisk, RecordingDisk, State, read_state
from tests.gateway.log.crash_states import CrashStates, state_key
from tests.gateway.log.kafka_files import batch
from tests.gateway.log.voter_life import Life, Promise, World
from tests.gateway.log.voter_outcomes import Counts, Crashed, Instant, Outcome
from tests.gateway.log.voting import formatting, open_store

_IN_MEMORY = Path("/dev/shm")
_QUIET = QuietDisk()
#: Things done in one life: some 900 file operations.
STEPS = 60
#: In one of so many states the store is opened twice more, goes on, and its recovery is crashed in
#: turn.
_THOROUGH = 200
_NESTED_STATES = 3
#: In the low byte of a batch's attributes. All control batches of a life are KRAFT_VERSION and
#: KRAFT_VOTERS.
_CONTROL = 0x20


def settings_of(seed: int) -> LogSettings:
    """Every other life has segments so large that much is written between two syncs."""
    return LogSettings(
        segment_bytes=700 if seed % 2 else 6000,
        index_interval_bytes=150,
        retention_bytes=1,
        retention_ms=-1,
    )


def record(root: Path, seed: int, steps: int) -> tuple[list[Op], Life]:
    """One life, with every operation and every promise in order."""
    disk = RecordingDisk(root)
    life = Life(root / "data", settings_of(seed), disk, disk.ack)
    life.run(random.Random(seed), steps)
    return disk.ops, life


def instants(ops: list[Op], seed: int, most: int, only: int | None = None) -> Iterator[Instant]:
    """Every state after every operation, or after operation ``only``."""
    disk, promise = CrashStates(), Promise()
    for number, op in enumerate(ops):
        if op.kind == "ack":
            promise = op.value
            continue
        disk.apply(op)
        if only not in (None, number):
            continue
        for state in disk.killed(op):
            yield Instant(number, state, promise, True)
        for state in disk.legal(random.Random(seed * 1_000_003 + number), most):
            yield Instant(number, state, promise, False)


def crash_life(
    seed: int,
    *,
    steps: int = STEPS,
    most: int,
    only: int | None = None,
    share: float = 1.0,
    forgotten: Callable[[Op], bool] = lambda op: False,
) -> Counts:
    """Check one life; ``only``: at that operation. ``share``: of the states. Raises Crashed.

    ``forgotten``: what the disk was not told to do, for telling whether that would be found out.
    """
    counts, rand = Counts(lives=1), random.Random(seed)
    known: dict[int, Outcome | None] = {}
    with tempfile.TemporaryDirectory(
        dir=_IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    ) as directory:
        root = Path(directory)
        (root / "life").mkdir()
        ops, life = record(root / "life", seed, steps)
        ops = [op for op in ops if not forgotten(op)]
        worlds = Worlds()
        counts.operations = sum(op.kind != "ack" for op in ops)
        for at in instants(ops, seed, most, only):
            if share < 1.0 and rand.random() > share:
                continue
            counts.states += 1
            key = state_key(at.state)
            try:
                if key not in known:
                    counts.recovered += 1
                    known[key] = recovered(root / "state", at.state, life.settings)
                    if counts.recovered % _THOROUGH == 0:
                        counts.nested += _thoroughly(root / "state", at, life.settings, worlds)
                keeps(known[key], at.promise, worlds, killed=at.killed)
            except Exception as error:
                line = (
                    f"python -m tests.gateway.log.voter_crashes --seeds {seed}:{seed + 1} "
                    f"--most {most} --only {at.number}"
                )
                where = traceback.extract_tb(error.__traceback__)[-1]
                what = f"{error!r} at {where.name}: {where.line}"
                raise Crashed(
                    f"{what}, after operation {at.number}: {ops[at.number][:2]}; replay: {line}"
                ) from error
    return counts


# --- one state
# -------------------------------------------------------------------------------------------------


class Worlds:
    """Whether a log is one of a world's, remembered."""

    def __init__(self) -> None:
        self._digests: dict[tuple[int, int, int], int] = {}

    def has(self, world: World, outcome: Outcome) -> bool:
        """Whether it begins and ends as promised, with the batches of that world."""
        if outcome.start not in world.starts or outcome.end < world.least:
            return False
        key = id(world), outcome.first, outcome.end
        if key not in self._digests:
            self._digests[key] = digest(
                [one for one in world.batches if outcome.first <= one[0] < outcome.end]
            )
        return self._digests[key] == outcome.digest


def digest(batches: list[tuple[int, bytes]]) -> int:
    """The same for the same batches."""
    return hash(tuple(batches))


def keeps(outcome: Outcome | None, promise: Promise, worlds: Worlds, *, killed: bool) -> None:
    """The start found what was promised, and nothing else."""
    if outcome is None:
        assert not promise.formatted, "what was formatted stays formatted"
        return
    assert outcome.election in promise.elections, outcome.election
    assert any(worlds.has(world, outcome) for world in promise.worlds), "the log is not as promised"
    assert outcome.high_watermark >= (promise.noted if killed else promise.settled)
    assert outcome.high_watermark <= promise.high_watermark


def recovered(root: Path, state: State, settings: LogSettings) -> Outcome | None:
    """Start on a state, and again be killed; None where it was not formatted yet, and could be.
    Raises what the start does.
    """
    put(root, state)
    try:
        return _started(root, settings)
    finally:
        empty(root)


def _started(root: Path, settings: LogSettings) -> Outcome | None:
    try:
        store = open_store(root / "data", settings, disk=_QUIET)
    except NotFormatted:
        format_directory(root / "data", formatting(), disk=_QUIET)
        open_store(root / "data", settings, disk=_QUIET).close()
        return None
    try:
        stored, batches = store.stored(), _batches(store)
        _agrees_with_itself(stored, batches)
        first = batches[0][0] if batches else stored.end_offset
        return Outcome(
            stored.election,
            stored.start_offset,
            first,
            stored.end_offset,
            digest(batches),
            stored.high_watermark,
        )
    finally:
        killed(store)


def _agrees_with_itself(stored: StoredFacts, batches: list[tuple[int, bytes]]) -> None:
    """Voters and epochs are those of the batches and of the newest snapshot."""
    known = max(stored.snapshots, key=lambda one: (one.epoch, one.end_offset), default=None)
    begin = known.end_offset if known else 0
    expected = [-1, *([begin - 1] if known else [])]
    expected += [at + 1 for at, data in batches if data[22] & _CONTROL and at + 1 >= begin]
    assert [offset for offset, _ in stored.voters] == expected
    epochs: dict[int, int] = {}
    for offset, data in batches:
        epochs.setdefault(int.from_bytes(data[12:16], "big"), offset)
    below = [at for at in epochs.values() if at <= stored.start_offset]
    assert stored.epochs == tuple(
        (epoch, max(at, stored.start_offset))
        for epoch, at in epochs.items()
        if at not in below[:-1]
    )


def _batches(store: RaftStore) -> list[tuple[int, bytes]]:
    """Base offset and bytes of every batch; they follow on up to the end."""
    found: list[tuple[int, bytes]] = []
    expected = -1
    for path in sorted(store.directory.glob("*.log")):
        data, at = path.read_bytes(), 0
        assert expected in (-1, int(path.stem))
        expected = int(path.stem)
        while at < len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            offset = int.from_bytes(data[at : at + 8], "big")
            assert offset == expected
            expected = offset + int.from_bytes(data[at + 23 : at + 27], "big") + 1
            found.append((offset, data[at : at + size]))
            at += size
    assert expected == store.end_offset
    return found


def _thoroughly(root: Path, at: Instant, settings: LogSettings, worlds: Worlds) -> int:
    """A recovered directory is taken as it is and goes on; and crashes of the recovery. Returns how
    many states those left.
    """
    put(root, at.state)
    try:
        if _started(root, settings) is None:
            return 0
        open_store(root / "data", settings, disk=_QUIET).close()
        before = read_state(root)
        store = open_store(root / "data", settings, disk=_QUIET)
        assert store.problems == []
        store.close()
        assert read_state(root) == before, "opening what was opened before changes nothing"
        _goes_on(root, settings)
        return _crash_again(root, at, settings, worlds)
    finally:
        empty(root)


def _goes_on(root: Path, settings: LogSettings) -> None:
    store = open_store(root / "data", settings, disk=_QUIET)
    epoch = store.stored().election.epoch + 1
    store.persist(epoch, 1, 1, store.directory_id, kraft_version=1)
    one = batch(store.end_offset, 2, epoch)
    assert store.append(store.end_offset, one.data) == store.flush() == one.next_offset
    store.close()


def _crash_again(root: Path, at: Instant, settings: LogSettings, worlds: Worlds) -> int:
    """Crash the recovery itself at each of its operations."""
    empty(root)
    put(root, at.state)
    disk = RecordingDisk(root)
    killed(open_store(root / "data", settings, disk=disk))
    nested, tried = CrashStates(at.state), 0
    for number, op in enumerate(disk.ops):
        nested.apply(op)
        for state in nested.legal(random.Random(number), _NESTED_STATES):
            tried += 1
            keeps(
                recovered(root.with_name("again"), state, settings),
                at.promise,
                worlds,
                killed=False,
            )
    return tried


def put(root: Path, state: State) -> None:
    """Make the directory ``root``, which is empty or not there, hold ``state``."""
    top = os.fspath(root)
    for path in sorted(path for path, data in state.items() if data is None):
        os.makedirs(f"{top}/{path}", exist_ok=True)
    for path, data in state.items():
        if data is not None:
            fd = os.open(f"{top}/{path}", os.O_WRONLY | os.O_CREAT, 0o644)
            os.write(fd, data)
            os.close(fd)


def empty(root: Path) -> None:
    """No file is left; directories may be."""
    for directory, _, names in os.walk(root):
        for name in names:
            os.unlink(f"{directory}/{name}")


def killed(store: RaftStore) -> None:
    """As kill -9 does it: nothing more is written, and the directory is free."""
    store._guard.reason = store._log._log.guard.reason = "it was killed"
    store.close()


# --- many lives
# -------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gateway.log.voter_crashes", description=__doc__
    )
    parser.add_argument(
        "--seeds", default="0:4", metavar="FIRST:LAST", help="one life each, the last not included"
    )
    parser.add_argument(
        "--most", type=int, default=64, help="states drawn after one operation where there are more"
    )
    parser.add_argument("--only", type=int, metavar="N", help="after operation N of each life")
    parser.add_argument(
        "--states", type=int, default=0, metavar="N", help="stop after so many; 0: all lives"
    )
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    first, _, last = given.seeds.partition(":")
    total, begun = Counts(), time.monotonic()
    with ProcessPoolExecutor(given.processes) as pool:
        lives = [
            pool.submit(crash_life, seed, most=given.most, only=given.only)
            for seed in range(int(first), int(last))
        ]
        for seed, life in enumerate(lives, int(first)):
            try:
                total.add(life.result())
            except Crashed as error:
                print(error, file=sys.stderr)
                pool.shutdown(cancel_futures=True)
                return 1
            print(summary(total, time.monotonic() - begun), f"(to seed {seed})", flush=True)
            if 0 < given.states <= total.states + total.nested:
                pool.shutdown(cancel_futures=True)
                break
    return 0


def summary(counts: Counts, seconds: float) -> str:
    """One line."""
    return (
        f"{counts.lives} lives of voters, {counts.operations} file operations: "
        f"{counts.states} disk states checked, "
        f"{counts.recovered} of them unlike each other and recovered, "
        f"{counts.nested} more from crashes in recovery; "
        f"{seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
