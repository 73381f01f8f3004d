"""Every state that a crash may leave on a disk, as far as POSIX promises: all combinations where
they are few, else many.

Of what was not synced each write may be there, missing, torn, or there in length only; each name
made, changed or removed and not synced with its directory may be as before. In any combination: a
disk keeps no order of its own accord.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

from tests.gateway.log.crash_disk import CrashDisk, Op, State

#: Where a write may be torn, beside one byte from either end and the middle: a sector, a page.
_BOUNDARIES = (512, 4096)
_DROPPED, _KEPT, _ZEROED = -1, -2, -3
#: The fate of one change after a crash: one of these three, or the number of bytes of a write that
#: are on disk.
CrashOutcome = int


class CrashStates(CrashDisk):
    """A disk with something to lose."""

    def legal(self, rand: random.Random, most: int) -> Iterator[State]:
        """Yield the states that a power failure may leave now: all if there are at most ``most``,
        else that many drawn at random.
        """
        pending = self._pending()
        choices = [_fates(change) for change in pending]
        count = 2 ** len(self.renames)
        for each in choices:
            count *= len(each)
            if count > most:
                break
        if count <= most:
            for drawn in itertools.product(*choices, *([(False, True)] * len(self.renames))):
                yield self._left(pending, drawn[: len(pending)], drawn[len(pending) :])  # type: ignore[arg-type]
            return
        for number in range(most):
            yield self._drawn(rand, pending, choices, number)

    def everything(self) -> State:
        """Return the state after a kill of the process: every write is there."""
        return self._state(self.names)

    def _drawn(
        self,
        rand: random.Random,
        pending: Sequence[Op],
        choices: Sequence[Sequence[CrashOutcome]],
        number: int,
    ) -> State:
        """One of very many states: from nearly everything lost to nearly everything there, and ends
        of all kinds.
        """
        keep = (0.0, 1.0, 0.5, 0.9, 0.1)[number % 5]
        fates = [
            (_KEPT if rand.random() < keep else _DROPPED)
            if rand.random() < 0.6
            else rand.choice(fates)
            for fates in choices
        ]
        return self._left(pending, fates, [rand.random() < (keep or 0.3) for _ in self.renames])

    def _pending(self) -> list[Op]:
        inodes = {id(inode): inode for inode in (*self.names.values(), *self.synced_names.values())}
        inodes |= {id(inode): inode for _, inode in self.renames if inode is not None}
        return [change for inode in inodes.values() for change in inode.changes]

    def _left(
        self, pending: Sequence[Op], fates: Sequence[CrashOutcome], named: Sequence[bool]
    ) -> State:
        names = dict(self.synced_names)
        for (change, inode), done in zip(self.renames, named, strict=True):
            if done:
                if change.kind == "create":
                    assert inode is not None
                    names[change.path] = inode
                elif (
                    moved := names.pop(change.path, None)
                ) is not None and change.kind == "rename":
                    names[change.value] = moved
        fate_of = {id(change): outcome for change, outcome in zip(pending, fates, strict=True)}
        state: State = dict.fromkeys(self.directories)
        for path, inode in names.items():
            state[path] = _content(inode, fate_of) if inode.changes else inode.data
        return state


def _fates(change: Op) -> list[CrashOutcome]:
    """Return the possible fates of one change."""
    if change.kind == "truncate":
        return [_KEPT, _DROPPED]
    size = len(change.value)
    torn = {1, size // 2, size - 1, *(at - change.position % at for at in _BOUNDARIES)}
    return [_KEPT, _DROPPED, _ZEROED, *sorted(at for at in torn if 0 < at < size)]


def _content(inode: Any, fate_of: dict[int, CrashOutcome]) -> bytes:
    data = bytearray(inode.data)
    for change in inode.changes:
        supervisor = fate_of[id(change)]
        if supervisor == _DROPPED:
            continue
        if change.kind == "truncate":
            data[:] = data[: change.value].ljust(change.value, b"\0")
            continue
        value = (
            change.value
            if supervisor == _KEPT
            else bytes(len(change.value))
            if supervisor == _ZEROED
            else change.value[:supervisor]
        )
        end = change.position + len(value)
        data.extend(bytes(max(0, end - len(data))))
        data[change.position : end] = value
    return bytes(data)


def state_key(state: State) -> int:
    """The same for the same state."""
    return hash(frozenset(state.items()))
