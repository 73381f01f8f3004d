"""Rules of committed offsets and of the coordinators of groups (KIP-211, KIP-320, KIP-447)."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.fixtures import metadata, readable
from kwire.conformance.group_fixtures import MEMBERS, join_alone, new_group, sync
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NAME
from kwire.conformance.rule import BROKER, Changes, Family, Level
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import Uuid

_APIS: Final = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    *MEMBERS,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
)
_NO_ID: Final = Uuid(bytes(range(16)))
_FIND: Final = (ApiKey.FIND_COORDINATOR,)
#: offset.metadata.max.bytes is 4096 by default.
_METADATA_TOO_LONG: Final = "m" * 100_000
FAMILY: Final = Family(
    "offsets",
    "Committed offsets and coordinators",
    roles=BROKER,
    apis=_APIS,
    changes=Changes.OWN,
)


def _commit(
    probe: Probe, group: str, topic: str, *, offset: int = 1, note: str | None = "note",
    index: int = 0, version: int | None = None, **more: Any,
) -> int:  # fmt: skip
    version = probe.newest(ApiKey.OFFSET_COMMIT, at_most=9) if version is None else version
    partition = OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_metadata=note
    )
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    values: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": "", **more}
    answer = probe.call(OffsetCommitRequest(group_id=group, topics=topics, **values), version)
    [found] = answer.topics
    [one] = found.partitions
    code: int = one.error_code
    return code


def _fetched(probe: Probe, group: str, topic: str | None, index: int = 0) -> Any:
    """Return the group's part of the answer to OffsetFetch."""
    version = probe.need(ApiKey.OFFSET_FETCH, 8, 9)
    topics = None
    if topic is not None:
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[index])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    [found] = probe.call(request, version).groups
    probe.expect(found.group_id == group, f"group {group} is answered for {found.group_id}")
    return found


def _one(probe: Probe, group: Any) -> Any:
    probe.expect_error(group.error_code, ErrorCode.NONE, where="the group")
    found = [one for topic in group.topics for one in topic.partitions]
    probe.expect(len(found) == 1, f"there are {len(found)} partitions, one was asked for")
    return found[0]


@FAMILY.rule("commit-and-fetch", source="OffsetCommitRequest.json", section="Topics")
def commit_and_fetch(probe: Probe) -> None:
    """A committed offset is fetched with its metadata."""
    where, group = readable(probe), new_group(probe)
    code = _commit(probe, group, where.topic, index=where.index, offset=3, note="ü note")
    probe.expect_error(code, ErrorCode.NONE)
    one = _one(probe, _fetched(probe, group, where.topic, where.index))
    found = (one.committed_offset, one.metadata)
    probe.expect(found == (3, "ü note"), f"offset 3 with 'ü note' is fetched as {found}")


@FAMILY.rule("last-commit-counts", source="OffsetCommitRequest.json", section="CommittedOffset")
def last_commit_counts(probe: Probe) -> None:
    """The last commit counts, a lower offset too."""
    where, group = readable(probe), new_group(probe)
    for offset in (5, 2):
        _commit(probe, group, where.topic, index=where.index, offset=offset)
    found = _one(probe, _fetched(probe, group, where.topic, where.index)).committed_offset
    probe.expect(found == 2, f"behind commits of 5 and 2 the offset is {found}")


@FAMILY.rule("leader-epoch", source="KIP-320", section="OffsetCommit v6", since="2.1")
def leader_epoch(probe: Probe) -> None:
    """The leader epoch of a commit is kept; it is -1 where none was given."""
    version = probe.need(ApiKey.OFFSET_COMMIT, 6, 7, 8, 9)
    where, group = readable(probe), new_group(probe)
    partition = OffsetCommitRequestPartition(
        partition_index=where.index, committed_offset=1, committed_leader_epoch=4
    )
    topics = [OffsetCommitRequestTopic(name=where.topic, partitions=[partition])]
    request = OffsetCommitRequest(
        group_id=group, topics=topics, generation_id_or_member_epoch=-1, member_id=""
    )
    probe.call(request, version)
    found = _one(probe, _fetched(probe, group, where.topic, where.index)).committed_leader_epoch
    probe.expect(found == 4, f"leader epoch 4 is fetched as {found}")
    _commit(probe, group, where.topic, index=where.index)
    found = _one(probe, _fetched(probe, group, where.topic, where.index)).committed_leader_epoch
    probe.expect(found == -1, f"no leader epoch is fetched as {found}")


@FAMILY.rule(
    "null-metadata",
    source="OffsetCommitRequest.json",
    section="CommittedMetadata",
    level=Level.SHOULD,  # the schema allows null in the answer
)
def null_metadata(probe: Probe) -> None:
    """A commit without metadata is fetched with empty metadata."""
    where, group = readable(probe), new_group(probe)
    code = _commit(probe, group, where.topic, index=where.index, note=None)
    probe.expect_error(code, ErrorCode.NONE)
    found = _one(probe, _fetched(probe, group, where.topic, where.index)).metadata
    probe.expect(found == "", f"null metadata is fetched as {found!r}")


@FAMILY.rule(
    "metadata-too-large",
    source="GroupCoordinator",
    section="offset.metadata.max.bytes",
    level=Level.SHOULD,  # the limit is the server's
)
def metadata_too_large(probe: Probe) -> None:
    """Metadata of 100,000 bytes has error OFFSET_METADATA_TOO_LARGE."""
    where, group = readable(probe), new_group(probe)
    version = probe.need(ApiKey.OFFSET_COMMIT, 8, 9)
    note = _METADATA_TOO_LONG[:32767]
    code = _commit(probe, group, where.topic, index=where.index, note=note, version=version)
    probe.expect_error(code, ErrorCode.OFFSET_METADATA_TOO_LARGE)


@FAMILY.rule("nothing-committed", source="OffsetFetchResponse.json", section="CommittedOffset")
def nothing_committed(probe: Probe) -> None:
    """A partition without a commit has offset -1, epoch -1, empty metadata and no error."""
    where, group = readable(probe), new_group(probe)
    one = _one(probe, _fetched(probe, group, where.topic, where.index))
    probe.expect_error(one.error_code, ErrorCode.NONE)
    found = (one.committed_offset, one.committed_leader_epoch, one.metadata)
    probe.expect(found == (-1, -1, ""), f"nothing is fetched as {found}")


@FAMILY.rule("all-topics", source="OffsetFetchRequest.json", section="Topics", since="0.10.2")
def all_topics(probe: Probe) -> None:
    """A null list of topics fetches every committed offset of the group; a new group has none."""
    where, group = readable(probe), new_group(probe)
    probe.expect(not _fetched(probe, group, None).topics, "a new group has committed offsets")
    _commit(probe, group, where.topic, index=where.index, offset=4)
    one = _one(probe, _fetched(probe, group, None))
    probe.expect(one.committed_offset == 4, f"offset 4 is fetched as {one.committed_offset}")


@FAMILY.rule("several-groups", source="KIP-709", section="OffsetFetch v8", since="3.0")
def several_groups(probe: Probe) -> None:
    """From version 8 on one request fetches the offsets of several groups, each its own."""
    version = probe.need(ApiKey.OFFSET_FETCH, 8, 9)
    where = readable(probe)
    groups = [new_group(probe), new_group(probe)]
    for offset, group in enumerate(groups):
        _commit(probe, group, where.topic, index=where.index, offset=offset)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    )
    answer = probe.call(request, version)
    found = {one.group_id: _one(probe, one).committed_offset for one in answer.groups}
    wanted = {group: offset for offset, group in enumerate(groups)}
    probe.expect(found == wanted, f"the groups have offsets {sorted(found.values())}")


@FAMILY.rule("unknown-topic", source="KafkaApis", section="handleOffsetCommitRequest")
def unknown_topic(probe: Probe) -> None:
    """A commit for a topic that does not exist has error UNKNOWN_TOPIC_OR_PARTITION."""
    code = _commit(probe, new_group(probe), NO_NAME)
    probe.expect_error(code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@FAMILY.rule("unknown-topic-id", source="KIP-848", section="OffsetCommit v10", since="4.1")
def unknown_topic_id(probe: Probe) -> None:
    """From version 10 on a commit for a topic id that no topic has has error UNKNOWN_TOPIC_ID."""
    version = probe.need(ApiKey.OFFSET_COMMIT, 10)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(topic_id=_NO_ID, partitions=[partition])
    request = OffsetCommitRequest(
        group_id=new_group(probe), topics=[topic], generation_id_or_member_epoch=-1, member_id=""
    )
    [found] = probe.call(request, version).topics
    probe.expect_error(found.partitions[0].error_code, ErrorCode.UNKNOWN_TOPIC_ID)


@FAMILY.rule("commit-of-no-member", source="GroupCoordinator", section="validateOffsetCommit")
def commit_of_no_member(probe: Probe) -> None:
    """A commit of a member that the group does not have has error UNKNOWN_MEMBER_ID."""
    where, member = readable(probe), join_alone(probe)
    code = _commit(
        probe, member.group, where.topic, index=where.index,
        member_id="kwire-conform-no-member", generation_id_or_member_epoch=member.generation,
    )  # fmt: skip
    probe.expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID)


@FAMILY.rule("commit-of-old-generation", source="GroupCoordinator", section="validateOffsetCommit")
def commit_of_old_generation(probe: Probe) -> None:
    """A commit of another generation has error ILLEGAL_GENERATION."""
    where, member = readable(probe), join_alone(probe)
    sync(probe, member, b"mine")
    code = _commit(
        probe, member.group, where.topic, index=where.index,
        member_id=member.member_id, generation_id_or_member_epoch=member.generation + 1,
    )  # fmt: skip
    probe.expect_error(code, ErrorCode.ILLEGAL_GENERATION)


@FAMILY.rule("commit-of-member", source="GroupCoordinator", section="validateOffsetCommit")
def commit_of_member(probe: Probe) -> None:
    """A commit of a member of the current generation is accepted."""
    where, member = readable(probe), join_alone(probe)
    sync(probe, member, b"mine")
    code = _commit(
        probe, member.group, where.topic, index=where.index,
        member_id=member.member_id, generation_id_or_member_epoch=member.generation,
    )  # fmt: skip
    probe.expect_error(code, ErrorCode.NONE)


@FAMILY.rule("same-in-all-versions", source="OffsetCommitRequest.json", section="Topics")
def same_in_all_versions(probe: Probe) -> None:
    """A commit of every version is kept."""
    where, group = readable(probe), new_group(probe)
    for version in probe.session.versions(ApiKey.OFFSET_COMMIT):
        if version <= 9:
            _commit(probe, group, where.topic, index=where.index, offset=version, version=version)
            found = _one(probe, _fetched(probe, group, where.topic, where.index))
            probe.expect(
                found.committed_offset == version,
                f"a commit of v{version} is fetched as {found.committed_offset}",
            )


# --- FindCoordinator ------------------------------------------------------------------------


@FAMILY.rule(
    "coordinator-is-a-broker",
    source="FindCoordinatorResponse.json",
    section="NodeId",
    apis=(*_FIND, ApiKey.METADATA, *MEMBERS),
)
def coordinator_is_a_broker(probe: Probe) -> None:
    """The coordinator of a group is one of the brokers that Metadata names, at the same address."""
    group = new_group(probe)
    version = probe.newest(ApiKey.FIND_COORDINATOR, at_most=3)
    one = probe.call(FindCoordinatorRequest(key=group), version)
    probe.expect_error(one.error_code, ErrorCode.NONE)
    brokers = {broker.node_id: (broker.host, broker.port) for broker in metadata(probe, []).brokers}
    probe.expect(
        brokers.get(one.node_id) == (one.host, one.port),
        f"the coordinator is {one.node_id} at {one.host}:{one.port}, brokers are {brokers}",
    )


@FAMILY.rule(
    "several-coordinators",
    source="KIP-699",
    section="FindCoordinator v4",
    since="3.0",
    apis=(*_FIND, *MEMBERS),
)
def several_coordinators(probe: Probe) -> None:
    """From version 4 on one request finds the coordinators of several groups."""
    version = probe.need(ApiKey.FIND_COORDINATOR, 4, 5, 6)
    groups = [new_group(probe), new_group(probe)]
    answer = probe.call(FindCoordinatorRequest(coordinator_keys=groups), version)
    found = sorted(one.key for one in answer.coordinators)
    probe.expect(found == sorted(groups), f"two groups are answered with {found}")
    for one in answer.coordinators:
        probe.expect_error(one.error_code, ErrorCode.NONE)


@FAMILY.rule(
    "unknown-coordinator-type",
    source="KafkaApis",
    section="getCoordinator",
    since="0.11",
    apis=_FIND,
    changes=Changes.NOTHING,
)
def unknown_coordinator_type(probe: Probe) -> None:
    """A key type that Kafka does not have is answered with INVALID_REQUEST or closes the
    connection.
    """
    version = probe.need(ApiKey.FIND_COORDINATOR, 4, 5, 6)
    request = FindCoordinatorRequest(key_type=99, coordinator_keys=[NO_NAME])
    connection = probe.connect()
    number, data = probe.encode(request, version)
    connection.send_request(data, ApiKey.FIND_COORDINATOR, version)
    ended = connection.ends(probe.close_s)
    if isinstance(ended, bytes):
        answer = probe.decode(ended, ApiKey.FIND_COORDINATOR, version, number)
        codes = {one.error_code for one in answer.coordinators} | {answer.error_code}
        probe.expect(
            bool(codes & {ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR}),
            f"key type 99 is answered with errors {sorted(codes)}",
        )
    else:
        probe.expect(ended, "key type 99 has neither an answer nor a closed connection")
