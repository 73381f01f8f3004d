"""The coordinator's records: Kafka's bytes, read back the same."""

from __future__ import annotations

import pytest

from gateway.groups import events as e
from gateway.groups.group import Group, State
from gateway.groups.member import Member
from gateway.groups.records import (
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
    read_record,
    restore_groups,
)
from gateway.groups.usage import Usage
from kwire.errors import DecodeError
from kwire.messages.group_metadata_value import GroupMetadataValue
from kwire.messages.group_metadata_value import MemberMetadata as StoredMember
from kwire.messages.offset_commit_value import OffsetCommitValue
from kwire.messages.share_group_metadata_key import ShareGroupMetadataKey

KEY = bytes.fromhex("0001 0001 67 0001 74 00000003".replace(" ", ""))


def test_an_offset_in_bytes() -> None:
    key, value = offset_record("g", ("t", 3), e.Committed(258, 7, "me", 1_700_000_000_000))
    assert key == KEY
    assert value is not None
    assert value.hex() == "0003" + "0000000000000102" + "00000007" + "00026d65" + "0000018bcfe56800"
    assert read_record(key, value) == ("g", ("t", 3), e.Committed(258, 7, "me", 1_700_000_000_000))
    assert offset_tombstone("g", ("t", 3)) == (KEY, None)


def test_offset_with_an_expiry_time_is_of_version_1() -> None:
    key, value = offset_record("g", ("t", 3), e.Committed(5, -1, "", 1000, 2000))
    assert value is not None and value[:2] == b"\0\1"
    assert read_record(key, value) == ("g", ("t", 3), e.Committed(5, -1, "", 1000, 2000))


@pytest.mark.parametrize("version", OffsetCommitValue.VERSIONS)
def test_offsets_of_every_version_are_read(version: int) -> None:
    stored = OffsetCommitValue(
        offset=5, leader_epoch=2 if version >= 3 else -1, metadata="m", commit_timestamp=9
    )
    value = version.to_bytes(2, "big") + stored.encode(version)
    expected = e.Committed(5, stored.leader_epoch, "m", 9)
    for kind in (b"\0\0", b"\0\1"):
        assert read_record(kind + KEY[2:], value) == ("g", ("t", 3), expected)


def test_a_group_in_records() -> None:
    usage = Usage()
    group = Group("g", usage, 1234)
    for name, instance in (("a", None), ("b", "one")):
        protocols = (e.Protocol("range", name.encode()), e.Protocol("sticky", b"no"))
        group.add(
            Member(
                name,
                instance,
                "client",
                "/h",
                6000,
                7000,
                "consumer",
                protocols,
                b"assigned " + name.encode(),  # type: ignore[arg-type]
            )
        )
    group.generation, group.protocol_name, group.leader, group.state = 9, "range", "b", State.STABLE
    record = group_record(group)
    assert record[1] is not None and record[1][:2] == b"\0\3"
    assert group_tombstone("g") == (record[0], None)

    (restored,) = restore_groups([(record[0], record[1])], Usage(), 99).values()
    assert (restored.state, restored.generation, restored.leader) == (State.STABLE, 9, "b")
    assert restored.static_members == {"one": "b"}
    assert (restored.protocol_type, restored.protocol_name, restored.state_since_ms) == (
        "consumer",
        "range",
        1234,
    )
    for name, member in restored.members.items():
        before = group.members[name]
        assert member.protocols == (e.Protocol("range", name.encode()),)
        assert (member.assignment, member.rebalance_timeout_ms, member.session_timeout_ms) == (
            before.assignment,
            6000,
            7000,
        )
    assert group_record(restored) == record


@pytest.mark.parametrize("version", GroupMetadataValue.VERSIONS)
def test_groups_of_every_version_are_read(version: int) -> None:
    member = StoredMember(
        member_id="a",
        client_id="c",
        client_host="/h",
        session_timeout=7000,
        subscription=b"s",
        assignment=b"x",
    )
    stored = GroupMetadataValue(
        protocol_type="connect", generation=4, protocol="p", leader="gone", members=[member]
    )
    value = version.to_bytes(2, "big") + stored.encode(version)
    (group,) = restore_groups([(b"\0\2\0\1g", value)], Usage(), 99).values()
    assert (group.state, group.generation, group.leader) == (State.STABLE, 4, "a")
    assert group.members["a"].rebalance_timeout_ms == 7000


def test_records_of_share_groups_are_passed_over() -> None:
    key = b"\0\x0b" + ShareGroupMetadataKey(group_id="new").encode(0)
    assert read_record(key, b"\0\0anything") is None
    assert restore_groups([(key, b"\0\0")], Usage(), 1) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b"\0\3"),
        (b"\0", b"\0\3"),
        (KEY, b""),
        (KEY, b"\0\x63"),
        (KEY, b"\0\3"),
        (KEY[:-1], offset_record("g", ("t", 3), e.Committed(1, 1, "", 1))[1] or b""),
        (b"\0\2\0\1g", b"\0\x63"),
        (b"\0\2\0\1g", b"\0\3\0"),
    ],
)
def test_malformed_record_is_a_decode_error(key: bytes, value: bytes) -> None:
    with pytest.raises(DecodeError):
        read_record(key, value)
