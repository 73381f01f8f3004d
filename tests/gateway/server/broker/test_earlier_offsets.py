"""Offsets that an earlier release kept in a log of its own are in ``__consumer_offsets`` after the
first start, also if that start was cut off at any step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.groups.events import Committed
from gateway.groups.records import group_id_of, offset_record
from gateway.log.files.errors import LogLocked
from gateway.log.offsets.offset_store import DIRECTORY, OffsetStore
from gateway.server.broker import earlier_offsets
from gateway.server.broker.earlier_offsets import EARLIER, EarlierOffsets
from gateway.server.logging.logs import Reports
from kwire.errors import DecodeError
from tests.gateway.server.broker.test_broker_node import broker, unfenced
from tests.gateway.server.broker.test_partitioned_groups import (
    GROUPS,
    commit_through,
    coordinated,
    fetch_through,
)
from tests.gateway.server.harness import run
from tests.waiting import until_async


def keep(state_dir: Path) -> None:
    """Make the log of an earlier release: group number N has committed offset N."""
    store = OffsetStore(state_dir / DIRECTORY)
    for number, group in enumerate(GROUPS):
        record = offset_record(group, ("t", 0), Committed(number, -1, "m", 1_000))
        store.append([record], 1_000, owners={record[0]: "User:u"} if number % 2 else {})
    store.close()


def left(state_dir: Path) -> list[str]:
    return sorted(path.name for path in state_dir.iterdir())


async def check(node: Any, state_dir: Path) -> None:
    await coordinated(node, *GROUPS)
    assert await fetch_through(node, *GROUPS) == [[number] for number in range(40)]
    assert left(state_dir) == []
    usage = node.ready.services.groups.usage
    assert usage.groups == 40 and usage.by_owner["User:u"].groups == 20


def test_earlier_offsets_are_taken_over_at_the_first_start(tmp_path: Path) -> None:
    state_dir = tmp_path / "kwire"
    keep(state_dir)

    async def main() -> None:
        async with broker(tmp_path, offsets_topic_num_partitions=3) as node:
            await check(node, state_dir)
            assert await node.create("t") == 0
            assert await commit_through(node, "g1", 100) == 0
        async with broker(tmp_path) as node:
            await coordinated(node, "g1")
            assert await fetch_through(node, "g1") == [[100]]

    run(main)


class _Killed(BaseException):
    """The process ends here."""


STEPS = ("_read", "_append", "_remove", "set_aside", "remove_directory")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_take_over_that_was_cut_off_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, *, is_done: bool
) -> None:
    state_dir = tmp_path / "kwire"
    keep(state_dir)
    target: Any = EarlierOffsets if step.startswith("_") else earlier_offsets
    real = getattr(target, step)
    reached: list[bool] = []

    def killed(*args: Any) -> Any:
        result = real(*args) if is_done and step != "_append" else None
        if step == "_append" and is_done and not reached:
            reached.append(True)  # the first partition is written, the second is not
            return real(*args)
        reached.append(True)
        del result
        raise _Killed

    async def first() -> None:
        async with broker(tmp_path, offsets_topic_num_partitions=3) as node:
            await unfenced(node)
            await until_async(lambda: False)

    async def second() -> None:
        async with broker(tmp_path, offsets_topic_num_partitions=3) as node:
            await check(node, state_dir)

    with monkeypatch.context() as patched:
        patched.setattr(target, step, killed)
        with pytest.raises(BaseException) as caught:
            run(first)
        assert caught.value is not None and reached
    run(second)


def test_earlier_offsets_that_another_process_uses_stay(tmp_path: Path) -> None:
    keep(tmp_path)
    store = OffsetStore(tmp_path / DIRECTORY)
    with pytest.raises(LogLocked):
        EarlierOffsets(tmp_path, Reports())
    store.close()
    assert left(tmp_path) == [DIRECTORY]
    assert EarlierOffsets(tmp_path, Reports()).exists
    assert left(tmp_path) == [EARLIER]


def test_partition_of_the_topic_is_no_earlier_log(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).mkdir()
    (tmp_path / DIRECTORY / "partition.metadata").touch()
    assert not EarlierOffsets(tmp_path, Reports()).exists
    assert not EarlierOffsets(tmp_path / "none", Reports()).exists


def test_group_of_a_key_is_its_first_text_and_a_short_key_is_refused() -> None:
    key, _ = offset_record("gr\xfcp", ("t", 7), Committed(1, -1, "", 1))
    assert group_id_of(key) == "gr\xfcp"
    for end in range(8):
        with pytest.raises(DecodeError):
            group_id_of(key[:end])
