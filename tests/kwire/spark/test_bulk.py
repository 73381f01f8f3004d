"""Records decoded many at a time are what each is when decoded by itself: all types, all real logs,
and damaged bytes.
"""

# ruff: noqa: E402 - without the extra nothing below can be imported
from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")
pa = pytest.importorskip("pyarrow", reason="the spark extra is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st

import kwire
from kwire.errors import DecodeError
from kwire.messages.config_record import ConfigRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.topic_record import TopicRecord
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.records import decode_batches as batches_in
from kwire.spark import arrow, bulk
from kwire.spark.layout import layout_of
from kwire.spark.record_types import type_prefix
from kwire.uuid import Uuid
from tests.kwire.spark.frames import METADATA, batch, every_record, frame
from tests.kwire.values import random_message
from tests.shared import needs_shared

MANY = 40


@pytest.fixture(autouse=True)
def few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small groups are decoded together too, so that a test needs no thousands of records."""
    monkeypatch.setattr(bulk, "ROWS_MIN", 2)


def check(values: Sequence[bytes | None], *, typed: Sequence[str] = ()) -> None:
    """Both ways give the same columns for ``values``; also as structs of the messages named in
    ``typed``.
    """
    given = batch(list(values))
    for secrets in (False, True):
        same(arrow.decode_batches, given, keep=("value",), fail_fast=False, secrets=secrets)
        for name in typed:
            same(arrow.typed_batches, given, name=name, keep=(), fail_fast=False, secrets=secrets)


def same(decode: Callable[..., Iterator[Any]], given: Any, **how: Any) -> None:
    (together,) = decode(iter([given]), bulk=True, **how)
    (alone,) = decode(iter([given]), bulk=False, **how)
    assert together.schema == alone.schema
    for name in alone.schema.names:
        assert together.column(name).to_pylist() == alone.column(name).to_pylist(), name


def in_groups(values: Sequence[bytes], secrets: bool = False) -> int:
    """How many of ``values`` are decoded together."""
    from kwire.spark.values import Values

    found, left = bulk.Layouts(secrets=secrets).groups(Values.of(pa.array(values, pa.binary())))
    rows = sorted([row for group in found for row in group.rows.tolist()] + left.tolist())
    assert rows == list(range(len(values)))
    return sum(len(group.rows) for group in found)


def alike(message: Any, version: int, rng: random.Random, count: int = MANY) -> list[bytes]:
    """Values of the shape of ``message``, with other numbers and ids in them."""
    numbers = [f for f in message.fields() if f.type == "int32" and f.at(version)]
    found = []
    for _ in range(count):
        changes = {f.attr: _other(getattr(message, f.attr), rng) for f in numbers}
        if hasattr(message, "topic_id"):
            changes["topic_id"] = Uuid(rng.randbytes(16))
        found.append(frame(message.copy(**changes), version))
    return found


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, list):
        return [_other(one, rng) for one in value]
    return (
        rng.choice((0, 1, -1, 2**31 - 1, -(2**31), rng.randrange(1000)))
        if value is not None
        else None
    )


@pytest.mark.parametrize("name", [name for _, name in METADATA])
@pytest.mark.parametrize("seed", range(3))
def test_random_records_of_every_type(name: str, seed: int) -> None:
    rng, cls = random.Random(f"{name} {seed}"), kwire.message_type(name)
    values = []
    for version in cls.VERSIONS:
        for _ in range(4):
            values += alike(random_message(cls, version, rng), version, rng, 6)
    rng.shuffle(values)
    check(values, typed=[name])


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_damaged_bytes(data: st.DataObject) -> None:
    """Bytes changed, cut off or put in, at any place of values that otherwise have one layout."""
    rng = random.Random(data.draw(st.integers(0, 1 << 32)))
    name = data.draw(
        st.sampled_from(
            ["PartitionRecord", "PartitionChangeRecord", "ConfigRecord", "RegisterBrokerRecord"]
        )
    )
    cls = kwire.message_type(name)
    version = data.draw(st.sampled_from(list(cls.VERSIONS)))
    values = alike(random_message(cls, version, rng), version, rng, 12)
    for row in data.draw(st.lists(st.integers(0, 11), max_size=8)):
        value = bytearray(values[row])
        at = rng.randrange(len(value) or 1)  # cut off at its beginning before, it is empty
        how = rng.random()
        if how < 0.7 and value:
            value[at] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
        elif how < 0.85:
            del value[at:]
        else:
            value[at:at] = rng.randbytes(rng.randrange(1, 4))
        values[row] = bytes(value)
    check(values, typed=[name])


def test_every_byte_of_the_frequent_records_changed() -> None:
    for message, version in frequent():
        value = frame(message, version)
        some = (0, 1, 2, 3, 5, 34, 92, 127, 128, 200, 255)
        changed = [
            value[:at] + bytes([byte]) + value[at + 1 :]
            for at in range(len(value))
            for byte in some
        ]
        check([value, value, *changed, value, None, b""], typed=[message.NAME])


def frequent() -> list[tuple[Any, int]]:
    partition = PartitionRecord(
        partition_id=7,
        topic_id=Uuid(b"\1" * 16),
        replicas=[1, 2, 3],
        isr=[1, 2],
        leader=1,
        leader_epoch=4,
        partition_epoch=9,
    )
    change = PartitionChangeRecord(
        partition_id=7, topic_id=Uuid(b"\1" * 16), isr=[1, 2], leader=1, leader_recovery_state=1
    )
    return [
        (partition, 0),
        (partition.copy(leader_recovery_state=1, directories=[Uuid(b"\2" * 16)]), 1),
        (partition.copy(eligible_leader_replicas=[3], last_known_elr=[]), 2),
        (change, 0),
        (change.copy(eligible_leader_replicas=[3], directories=[Uuid(b"\2" * 16)]), 2),
        (TopicRecord(name="orders", topic_id=Uuid(b"\1" * 16)), 0),
    ]


def test_the_frequent_records_are_decoded_together() -> None:
    rng = random.Random(1)
    for message, version in frequent():
        # One number of each is read as a tagged field at its default now and then, which is left
        # out of the JSON.
        assert in_groups(alike(message, version, rng)) >= MANY * 0.9, message
    for value in (b"\x01\x14\x00\x00", b"\x01\x11\x01" + bytes(12) + b"\2\0\1\1\1\1\1"):
        assert in_groups([value] * MANY) == MANY


def test_types_and_sizes_mixed_and_in_order() -> None:
    values = [value for _, _, value in every_record(each=1)] * 3
    random.Random(2).shuffle(values)
    check([None, *values, b"", b"\x01", values[0][:-1]])


@pytest.mark.parametrize("hidden", ["(redacted)", "0123456789"])
def test_secret_field_is_hidden_in_all_records_of_its_layout(hidden: str) -> None:
    """The first record decides the layout, so it may not look as if its secret were none."""
    configs = [
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value=v)
        for v in (hidden, "abcdefghij")
    ]
    plain = [
        ConfigRecord(resource_type=4, resource_name="1", name="log.cleanup.policy", value=v)
        for v in (hidden, "abcdefghij")
    ]
    scram = [
        UserScramCredentialRecord(name="eve", salt=s, stored_key=b"k" * 32)
        for s in (b"(redacted)", b"abcdefghij")
    ]
    values = [
        frame(message, 0) for pair in zip(configs, plain, scram, strict=True) for message in pair
    ] * MANY
    assert in_groups(values) == len(values) * 2 // 3, "all but the secret configs"
    check(values, typed=["ConfigRecord", "UserScramCredentialRecord"])
    (out,) = arrow.decode_batches(iter([batch(values)]), keep=(), fail_fast=False, secrets=False)
    for text in out.column("data").to_pylist():
        assert ("abcdefghij" in text) <= ("log.cleanup.policy" in text)


def test_texts_that_json_writes_otherwise() -> None:
    for name in ("a\"b\\c\n'", "ü€", "\x7f-/~ ", "abcdef"):
        values = [
            frame(TopicRecord(name=one, topic_id=Uuid(b"\1" * 16)), 0)
            for one in ("x" * len(name.encode()), name)
        ]
        check(values * MANY, typed=["TopicRecord"])


def test_many_shapes_of_one_size_are_soon_left_to_the_other_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records made so that no two share a layout cost as much as decoding them one by one, and a
    little.
    """
    tried = []

    def counted(value: bytes, *, secrets: bool) -> Any:
        tried.append(value)
        return layout_of(value, secrets=secrets)

    monkeypatch.setattr(bulk, "layout_of", counted)
    damaged = [
        frame(TopicRecord(name="x" * n, topic_id=Uuid(bytes(16))), 0) + bytes(200 - n)
        for n in range(200)
    ]
    configs = [
        frame(ConfigRecord(resource_name="r" * n, name="n" * (100 - n), value="v"), 0)
        for n in range(1, 100)
    ]
    assert in_groups(damaged) == in_groups(configs) == 0
    assert len(tried) < 10
    check(damaged + configs)


def test_first_bad_value_is_named_in_any_group() -> None:
    good = frame(frequent()[0][0], 0)
    values = [good] * MANY
    values[7], values[30] = good[:-1], b"\x01\x63\x00"
    for row in (7, 30):
        with pytest.raises(DecodeError, match=f"offset {100 + row}:"):
            list(
                arrow.decode_batches(iter([batch(values)]), keep=(), fail_fast=True, secrets=False)
            )
        values[7] = good


def test_slices_and_large_arrays() -> None:
    values = [frame(frequent()[n % 2][0], n % 2) for n in range(MANY)]
    given = batch(values).slice(5, 20)
    same(arrow.decode_batches, given, keep=("value",), fail_fast=False, secrets=False)
    large = given.set_column(2, "value", given.column("value").cast(pa.large_binary()))
    same(arrow.decode_batches, large, keep=(), fail_fast=False, secrets=False)
    same(arrow.decode_batches, given.slice(0, 0), keep=(), fail_fast=False, secrets=False)


@needs_shared
@pytest.mark.parametrize(
    "name",
    [
        "p-abort",
        "p-large",
        "p-old",
        "p-one-basic",
        "p-one-segments",
        "p-quorum",
        "p-quorum-short",
        "p-upgrade",
    ],
)
def test_every_record_of_real_logs(logs: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "ROWS_MIN", 24)
    values = list(dict.fromkeys(_values(logs(name))))[:16_000]
    rng = random.Random(name)
    for start in range(0, len(values), 10_000):
        some = values[start : start + 10_000]
        check(some)
        check([_mutated(value, rng) for value in some])
    for message in ("PartitionRecord", "PartitionChangeRecord", "BrokerRegistrationChangeRecord"):
        check(
            [value for value in values if value.startswith(type_prefix(message))][:3000],
            typed=[message],
        )


def _values(log: Path) -> Iterator[bytes]:
    for file in sorted(log.glob("nodes/*/__cluster_metadata-0/*")):
        if file.suffix in (".log", ".checkpoint"):
            for one in batches_in(file.read_bytes()):
                if not one.header.is_control:
                    yield from (record.value for record in one.records if record.value is not None)


def _mutated(value: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(value))
    return value[:at] + bytes([value[at] ^ 1 << rng.randrange(8)]) + value[at + 1 :]
