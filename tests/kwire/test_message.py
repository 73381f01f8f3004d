"""Properties that hold for every message at every version, and the behaviour of single ones."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import random
from typing import Any

import pytest

import kwire
from kwire.errors import DecodeError, EncodeError, UnsupportedVersion
from kwire.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kwire.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.topic_record import TopicRecord
from tests.kwire.values import random_message
from tests.shared import mistyped

ALL = [
    (name, version)
    for name in kwire.message_names()
    for version in kwire.message_type(name).VERSIONS
]


def test_the_registry_is_whole() -> None:
    assert len(kwire.message_names()) == 278
    assert kwire.message_type("FetchRequest") is FetchRequest is kwire.request_type(1)
    assert kwire.response_type(1) is FetchResponse
    assert kwire.record_type(5) is PartitionChangeRecord
    assert kwire.record_type(2) is TopicRecord  # tiered storage has records of these numbers, too
    assert kwire.record_type(1).NAME == "UnregisterBrokerRecord"
    assert (
        1,
        range(4, 19),
        range(12, 19),
    ) == (FetchRequest.API_KEY, FetchRequest.VERSIONS, FetchRequest.FLEXIBLE_VERSIONS)


@pytest.mark.parametrize("find", [kwire.request_type, kwire.response_type, kwire.record_type])
def test_unknown_numbers(find: object) -> None:
    for key in (-1, 4, 7, 999, 32767):
        if find is kwire.record_type and key in (4, 7):
            continue
        with pytest.raises(kwire.UnknownApi, match=str(key)):
            find(key)  # type: ignore[operator]


def test_every_message_round_trips() -> None:
    rng = random.Random(1)
    for name, version in ALL:
        cls = kwire.message_type(name)
        for _ in range(4):
            message = random_message(cls, version, rng)
            data = message.encode(version)
            again = cls.decode(data, version)
            assert again == message, (name, version)
            assert again.encode(version) == data
            assert bytes(b"".join(message.encode_parts(version))) == data
            plain = random_message(cls, version, rng, tags=False)
            value = plain.to_json(version)
            assert cls.from_json(value, version).encode(version) == plain.encode(version), (
                name,
                version,
            )


@pytest.mark.parametrize("count", [0, 1, 8, 9, 127, 128, 129, 256, 1000])
def test_arrays_of_fixed_elements_of_any_length(count: int) -> None:
    keys = [ApiVersion(api_key=n, min_version=-n, max_version=n + 1) for n in range(count)]
    partitions = [
        FetchPartition(
            partition=n,
            fetch_offset=1 << 40 | n,
            replica_directory_id=kwire.Uuid(n.to_bytes(16, "big")),
        )
        for n in range(count)
    ]
    for message, version in (
        (ApiVersionsResponse(api_keys=keys), 0),
        (ApiVersionsResponse(api_keys=keys), 3),
        (FetchRequest(topics=[FetchTopic(partitions=partitions)]), 17),
    ):
        data = message.encode(version)
        again = type(message).decode(data, version)
        assert (again, again.encode(version)) == (message, data)
    for tagged in range(0, count, 50):
        keys[tagged].unknown_tags = [(7, b"x")]
        assert (
            ApiVersionsResponse.decode(ApiVersionsResponse(api_keys=keys).encode(3), 3).api_keys
            == keys
        )
        keys[tagged].unknown_tags = ()


def test_mutated_bytes_raise_nothing_else() -> None:
    rng = random.Random(3)
    for name, version in ALL:
        cls = kwire.message_type(name)
        data = bytearray(random_message(cls, version, rng).encode(version))
        for _ in range(30):
            broken = bytearray(data)
            for _ in range(rng.choice((1, 1, 2, 5))):
                if broken:
                    broken[rng.randrange(len(broken))] = rng.choice(
                        (0, 1, 127, 128, 255, rng.randrange(256))
                    )
            try:
                message, _ = cls.decode_from(bytes(broken), version)
            except DecodeError:
                continue
            repr(message)
            try:
                again = message.encode(version)
            except EncodeError as error:
                # Tags out of order, twice, or 0x7fffffff can be read and not written, as in Java.
                assert error.path.endswith(".unknown_tags")
                continue
            assert cls.decode(again, version).encode(version) == again


def test_trailing_bytes() -> None:
    data = TopicRecord(name="a", topic_id=kwire.Uuid(bytes(16))).encode(0)
    with pytest.raises(DecodeError, match="1 byte left over") as caught:
        TopicRecord.decode(data + b"x", 0)
    assert (caught.value.rule, caught.value.offset) == ("trailing-bytes", len(data))
    assert TopicRecord.decode(data + b"xyz", 0, allow_trailing=True) == TopicRecord.decode(data, 0)
    assert TopicRecord.decode_from(b"zz" + data + b"x", 0, 2)[1] == len(data) + 2


def test_any_bytes_like_input() -> None:
    data = TopicRecord(name="a").encode(0)
    assert (
        TopicRecord.decode(bytearray(data), 0)
        == TopicRecord.decode(memoryview(data), 0)
        == TopicRecord(name="a")
    )


def test_the_element_budget_counts_elements_and_unknown_tags() -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="t") for _ in range(10)],
        unknown_tags=[(50, b""), (51, b"")],
    )
    data = request.encode(12)
    assert MetadataRequest.decode(data, 12, budget=12) == request
    with pytest.raises(DecodeError) as caught:
        MetadataRequest.decode(data, 12, budget=11)
    assert (caught.value.rule, caught.value.path) == ("element-budget", "MetadataRequest.<tags>")
    with pytest.raises(DecodeError, match="10 elements, more than the 9"):
        MetadataRequest.decode(data, 12, budget=9)


def test_count_is_checked_against_the_bytes_before_any_allocation() -> None:
    for count in (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\x7f"):
        with pytest.raises(DecodeError) as caught:
            MetadataRequest.decode(count + bytes(20), 12)
        assert (caught.value.rule, caught.value.path) == ("truncated", "MetadataRequest.Topics")


def test_decode_errors_name_field_and_offset() -> None:
    data = FetchRequest(
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(), FetchPartition()])]
    ).encode(11)
    with pytest.raises(DecodeError) as caught:
        FetchRequest.decode(data[:-40], 11)
    assert caught.value.path == "FetchRequest.Topics[0].Partitions"
    assert str(caught.value).startswith(
        "FetchRequest.Topics[0].Partitions: 2 elements of at least 28 bytes"
    )


def test_encode_errors_name_the_field() -> None:
    cases = [
        (FetchRequest(max_wait_ms=2**31), 12, "FetchRequest.MaxWaitMs"),
        (
            FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(partition=mistyped("0"))])]),
            12,
            "FetchRequest.Topics[0].Partitions[0].Partition",
        ),
        (FetchRequest(topics=mistyped(None)), 12, "FetchRequest.Topics"),
        (
            FetchRequest(topics=[FetchTopic(topic=mistyped(b"x"))]),
            12,
            "FetchRequest.Topics[0].Topic",
        ),
        (FetchRequest(topics=[FetchTopic(topic="\ud800")]), 12, "FetchRequest.Topics[0].Topic"),
        (FetchRequest(topics=[FetchTopic(topic="x" * 32768)]), 12, "FetchRequest.Topics[0].Topic"),
        (
            FetchRequest(topics=[FetchTopic(topic_id=mistyped(b"short"))]),
            13,
            "FetchRequest.Topics[0].TopicId",
        ),
        (FetchRequest(replica_state=ReplicaState(replica_id=3)), 12, "FetchRequest.ReplicaState"),
        (FetchRequest(unknown_tags=[(99, b"")]), 11, "FetchRequest.unknown_tags"),
        (FetchRequest(unknown_tags=[(99, b""), (98, b"")]), 12, "FetchRequest.unknown_tags"),
        (FetchRequest(unknown_tags=[(0, b"")], cluster_id="c"), 12, "FetchRequest.unknown_tags"),
        (FetchRequest(topics=[mistyped(None)]), 12, "FetchRequest.Topics[0]"),
        (FetchRequest(topics=mistyped("ab")), 12, "FetchRequest.Topics"),
        (PartitionChangeRecord(isr=[1, mistyped("2")]), 0, "PartitionChangeRecord.Isr[1]"),
    ]
    for message, version, path in cases:
        with pytest.raises(EncodeError) as caught:
            message.encode(version)
        assert caught.value.path == path


def test_versions_out_of_range() -> None:
    for call in (
        lambda: FetchRequest().encode(3),
        lambda: FetchRequest.decode(b"", 19),
        lambda: FetchRequest().to_json(-1),
        lambda: FetchRequest.from_json({}, 99),
    ):
        with pytest.raises(UnsupportedVersion, match="FetchRequest has versions 4 to 18"):
            call()


def test_an_absent_tagged_struct_is_a_default_that_cannot_be_changed_by_accident() -> None:
    data = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=b"")])]
    ).encode(12)
    partition = FetchResponse.decode(data, 12).responses[0].partitions[0]
    assert partition.current_leader == LeaderIdAndEpoch()
    with pytest.raises(AttributeError, match="assign a new LeaderIdAndEpoch"):
        partition.current_leader.leader_id = 3
    assert repr(partition.current_leader) == "LeaderIdAndEpoch()"
    assert (
        partition.current_leader.copy()
        == pickle.loads(pickle.dumps(partition.current_leader))
        == LeaderIdAndEpoch()
    )
    partition.records = 5
    with pytest.raises(
        EncodeError, match="bytes expected"
    ):  # the slow walk meets the frozen default, too
        FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])]).encode(
            12
        )
    partition.current_leader = LeaderIdAndEpoch(leader_id=3)
    assert FetchResponse.decode(data, 12).responses[0].partitions[0].current_leader.leader_id == -1


def test_copies_share_nothing_that_can_change() -> None:
    message = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=1)], supported_features=[SupportedFeatureKey(name="a")]
    )
    for again in (message.copy(), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        again.api_keys[0].api_key = 2
        assert message.api_keys[0].api_key == 1
        assert again != message
    assert message.copy(error_code=35).error_code == 35
    with pytest.raises(TypeError):
        message.copy(no_such_field=1)
    assert copy.copy(message).api_keys is message.api_keys


def test_repr_shows_the_fields_that_were_set() -> None:
    assert repr(FetchPartition(partition=3)) == "FetchPartition(partition=3)"
    assert (
        repr(TopicRecord(name="a", unknown_tags=[(5, b"x")]))
        == "TopicRecord(name='a', unknown_tags=[(5, b'x')])"
    )


def test_messages_are_equal_by_fields_and_have_no_hash() -> None:
    assert TopicRecord(name="a") != TopicRecord(name="b")
    assert TopicRecord(name="a") != "a"
    with pytest.raises(TypeError):
        hash(TopicRecord())


def test_json_error_names_the_member() -> None:
    with pytest.raises(DecodeError, match=r"MetadataRequest\.topics\[0\]\.name: text expected"):
        MetadataRequest.from_json({"topics": [{"name": 5}], "allowAutoTopicCreation": True}, 4)
    with pytest.raises(DecodeError, match=r"MetadataRequest\.topics: is missing"):
        MetadataRequest.from_json({}, 0)
    with pytest.raises(DecodeError, match="an object expected"):
        MetadataRequest.from_json([], 0)
    with pytest.raises(EncodeError, match="no place"):
        FetchRequest(
            session_id=5, session_epoch=5, replica_state=ReplicaState(replica_id=3)
        ).to_json(4)


def test_json_numbers_that_are_not_finite() -> None:
    from kwire.messages.client_quota_record import ClientQuotaRecord

    for value, text in ((math.inf, "Infinity"), (-math.inf, "-Infinity")):
        record = ClientQuotaRecord(key="k", value=value)
        assert record.to_json(0)["value"] == text
        assert ClientQuotaRecord.from_json(record.to_json(0), 0) == record


def test_records_pass_through_by_length_alone() -> None:
    class OnDisk:
        def __len__(self) -> int:
            return 5

    marker = OnDisk()
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=marker)])]
    )
    parts = response.encode_parts(12)
    assert any(part is marker for part in parts)
    joined = b"".join(b"12345" if part is marker else part for part in parts)
    assert bytes(FetchResponse.decode(joined, 12).responses[0].partitions[0].records) == b"12345"  # type: ignore[arg-type]
    with pytest.raises(EncodeError):
        response.encode(12)


def test_the_collector_is_paused_only_while_a_large_message_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, large = (
        MetadataRequest(topics=[MetadataRequestTopic(name="t" * 50)] * n).encode(12)
        for n in (10, 1000)
    )
    real, seen = MetadataRequest._DECODERS[12], []

    def watched(data: bytes, at: int, budget: int) -> Any:
        seen.append(gc.isenabled())
        return real(data, at, budget)

    monkeypatch.setitem(MetadataRequest._DECODERS, 12, watched)
    MetadataRequest.decode(small, 12)
    MetadataRequest.decode(large, 12)
    with pytest.raises(DecodeError):
        MetadataRequest.decode(large[:-1], 12)
    assert (seen, gc.isenabled()) == ([True, False, False], True)
    gc.disable()
    try:
        MetadataRequest.decode(large, 12)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("data", [b"\0", b"\0\0\0\5\0"])
def test_refused_bytes_leave_no_reference_cycle(data: bytes) -> None:
    """The error would otherwise keep its caller's variables until a full pass of the collector."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            try:
                MetadataRequest.decode(data, 8)
            except DecodeError:
                continue
            raise AssertionError("decoded")
        assert gc.collect() == 0
    finally:
        gc.enable()
