"""The seeded faults of an active controller, each with the rule that is named for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kwire.conformance.catalog import families
from kwire.message import Message
from kwire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.messages.config_record import ConfigRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import (
    RecordBatch,
    decode_batches,
    decode_metadata_record,
    encode_metadata_record,
)
from tests.conformance_faults.changes import Change, Row, faults_of, partitions
from tests.conformance_faults.proxy import Changed

_OK: Final = ErrorCode.NONE
_FAILED: Final = ErrorCode.UNKNOWN_SERVER_ERROR


def _error(code: ErrorCode) -> Change:
    return _set(error_code=code)


def _set(**values: Any) -> Change:
    def change(answer: Any, request: Any) -> None:
        for name, value in values.items():
            setattr(answer, name, value(getattr(answer, name)) if callable(value) else value)

    return change


def _each(**values: Any) -> Change:
    """Set fields of all partitions that are not refused."""

    def change(answer: Any, request: Any) -> None:
        for one in partitions(answer):
            if one.error_code == ErrorCode.NONE:
                _set(**values)(one, request)

    return change


def _refusals_lost(answer: Any, request: Any) -> None:
    for one in (answer, *partitions(answer)):
        one.error_code = ErrorCode.NONE


def _log(change: Callable[[RecordBatch], None]) -> Change:
    """Change the batches in what a Fetch returns."""

    def changed(answer: Any, request: Any) -> None:
        for one in partitions(answer):
            batches = list(decode_batches(bytes(one.records or b"")))
            for batch in batches:
                change(batch)
            one.records = b"".join(batch.encode() for batch in batches)

    return changed


def _values(kind: type[Message], value: bytes | Callable[[Any], Message]) -> Change:
    """Records of one type in the log become something else."""

    def change(batch: RecordBatch) -> None:
        for record in batch.records if not batch.header.is_control else ():
            _, version, found = decode_metadata_record(record.value or b"")
            if isinstance(found, kind):
                record.value = (
                    value if isinstance(value, bytes)
                    else encode_metadata_record(value(found), version)
                )  # fmt: skip

    return _log(change)


def _lost(kind: type[Message]) -> Change:
    """Records of one type are not in the log."""
    return _values(kind, encode_metadata_record(NoOpRecord(), 0))


def _unfenced(record: Any) -> Message:
    record.fenced = -1
    return record


def _keyed(batch: RecordBatch) -> None:
    for record in batch.records:
        record.key = record.key or b"k"


def _producer(batch: RecordBatch) -> None:
    batch.header = batch.header._replace(producer_id=7)


class _SameBlock:
    """Every block of producer ids is the first one."""

    def __call__(self, answer: Any, request: Any) -> None:
        answer.producer_id_start = 0


def _wants(**values: bool) -> Callable[[Any], bool]:
    def asked(request: Any) -> bool:
        return all(getattr(request, name) == value for name, value in values.items())

    return asked


def _if(condition: Callable[[Any], bool], change: Change) -> Change:
    def changed(answer: Any, request: Any) -> None:
        if condition(request):
            change(answer, request)

    return changed


def _behind(request: Any) -> bool:
    return bool(request.current_metadata_offset == 0)


_REGISTRATION: Final = (
     "other-cluster", "feature-above", "feature-below", "feature-not-enabled",
     "no-metadata-version", "no-directories", "directory-twice", "directory-reserved",
     "id-in-use", "directory-of-another",
)  # fmt: skip
_ALTER_REFUSED: Final = (
     "old-partition-epoch", "newer-partition-epoch", "newer-leader-epoch", "old-leader-epoch",
     "not-leader", "without-leader", "no-replica", "fenced-replica", "epoch-of-replica",
     "recovering-with-followers", "recovering-again", "unknown-topic", "unknown-partition",
     "refusal-changes-nothing", "unknown-broker", "other-epoch",
)  # fmt: skip
_VOTERS: Final = {
    ApiKey.ADD_RAFT_VOTER: ("add-other-cluster", "add-no-endpoint", "add-no-id",
                            "add-no-directory", "add-voter-again"),
    ApiKey.REMOVE_RAFT_VOTER: ("remove-other-cluster", "remove-unknown", "remove-other-directory",
                               "remove-last"),
    ApiKey.UPDATE_RAFT_VOTER: ("update-other-cluster", "update-old-epoch", "update-newer-epoch",
                               "update-unknown", "update-no-endpoint", "update-versions"),
}  # fmt: skip


def _refusals() -> Iterator[Row]:
    """Requests that have to be refused are accepted."""
    key = ApiKey.BROKER_REGISTRATION
    for name in _REGISTRATION:
        yield f"registered: {name}", f"registration.{name}", Changed(key, _error(_OK))
    for name in _ALTER_REFUSED:
        change = Changed(ApiKey.ALTER_PARTITION, _refusals_lost)
        yield f"altered: {name}", f"alter-partition.{name}", change
    for api, names in _VOTERS.items():
        for name in names:
            yield f"voters: {name}", f"voters.{name}", Changed(api, _error(_OK))


def _lives() -> Iterator[Row]:
    yield from faults_of(
        ApiKey.BROKER_REGISTRATION,
        ("the broker epoch is 0", "registration.epoch", _set(broker_epoch=0)),
        ("an incarnation gets a new epoch", "registration.same-incarnation",
         _if(lambda request: request.rack == "r2", _set(broker_epoch=lambda it: it + 1))),
        ("all broker epochs are alike", "registration.epoch-rises", _set(broker_epoch=5)),
        ("the record has another epoch", "registration.record",
         _set(broker_epoch=lambda it: it + 1)),
    )  # fmt: skip
    yield from faults_of(
        ApiKey.UNREGISTER_BROKER,
        ("an unknown broker is unregistered", "registration.unregister-unknown", _error(_OK)),
    )
    yield from faults_of(
        ApiKey.FETCH,
        ("unregistered brokers are kept", "registration.unregister-record",
         _lost(UnregisterBrokerRecord)),
        ("a fenced broker stays in the log", "broker-heartbeat.fenced-on-demand",
         _lost(BrokerRegistrationChangeRecord)),
        ("a session never ends", "broker-heartbeat.session-ends",
         _values(BrokerRegistrationChangeRecord, _unfenced)),
        ("a leader does not move", "broker-heartbeat.leaders-move-first",
         _lost(PartitionChangeRecord)),
        ("an ISR is not written", "alter-partition.record", _lost(PartitionChangeRecord)),
        ("an unknown record type", "metadata-records.decode",
         _values(FeatureLevelRecord, b"\x01\x63\x00")),
        ("a topic without its name", "metadata-records.topic-then-partitions", _lost(TopicRecord)),
        ("a partition is not written", "metadata-records.partition", _lost(PartitionRecord)),
        ("a topic is not removed", "metadata-records.remove-topic", _lost(RemoveTopicRecord)),
        ("a configuration is not written", "metadata-records.config", _lost(ConfigRecord)),
        ("metadata.version is not written", "metadata-records.metadata-version-first",
         _lost(FeatureLevelRecord)),
        ("a batch has a producer", "metadata-records.no-producer", _log(_producer)),
        ("a record has a key", "metadata-records.without-keys", _log(_keyed)),
    )  # fmt: skip


def _heartbeats() -> Iterator[Row]:
    yield from faults_of(
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ("any broker gets ids", "registration.ids-of-unknown", _error(_OK)),
        ("an old epoch gets ids", "registration.ids-of-old-epoch", _error(_OK)),
        ("ids are given twice", "registration.ids-once", _SameBlock()),
    )
    yield from faults_of(
        ApiKey.BROKER_HEARTBEAT,
        ("any broker is alive", "broker-heartbeat.unknown-broker", _error(_OK)),
        ("any epoch is alive", "broker-heartbeat.other-epoch", _error(_OK)),
        ("an unregistered broker is alive", "broker-heartbeat.after-unregister", _error(_OK)),
        ("a new broker serves", "broker-heartbeat.starts-fenced", _set(is_fenced=False)),
        ("a broker that is behind serves", "broker-heartbeat.behind-stays-fenced",
         _if(_behind, _set(is_fenced=False))),
        ("a broker never serves", "broker-heartbeat.unfenced", _set(is_fenced=True)),
        ("a broker that serves is told to go", "broker-heartbeat.no-record-without-change",
         _set(is_fenced=True)),
        ("a fenced broker may not go", "broker-heartbeat.fenced-shuts-down",
         _set(should_shut_down=False)),
        ("a broker without leaders may not go", "broker-heartbeat.shuts-down-without-leaders",
         _set(should_shut_down=False)),
    )  # fmt: skip
    yield from faults_of(
        ApiKey.ALTER_PARTITION,
        ("a change has another epoch", "alter-partition.shrinks", _each(partition_epoch=0)),
        ("a replica stays out", "alter-partition.expands",
         _each(isr=lambda it: it[:1])),
        ("a change raises the leader epoch", "alter-partition.keeps-leader-epoch",
         _each(leader_epoch=1)),
        ("an empty change is refused", "alter-partition.empty", _error(_FAILED)),
    )  # fmt: skip


def _lost_error(answer: Any, request: Any) -> None:
    answer.error_code, answer.response_data = ErrorCode.NONE, answer.response_data or b"\0"


def _other_number(answer: Any, request: Any) -> None:
    if answer.response_data:
        answer.response_data = bytes(4) + bytes(answer.response_data)[4:]


def _outside(answer: Any, request: Any) -> None:
    answer.error_code, answer.response_data = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None


def _tagged(answer: Any, request: Any) -> None:
    if answer.response_data:
        data = bytes(answer.response_data)
        answer.response_data = data[:4] + b"\0" + data[4:]


def _invalid(answer: Any, request: Any) -> None:
    answer.error_code, answer.response_data = ErrorCode.INVALID_REQUEST, None


def _forwarding() -> Iterator[Row]:
    yield from faults_of(
        ApiKey.ENVELOPE,
        ("an answer to another request inside", "forwarding.inner-answer", _other_number),
        ("an error inside is put outside", "forwarding.inner-error", _outside),
        ("tagged fields in an old header inside", "forwarding.inner-header", _tagged),
        ("IPv6 clients are refused", "forwarding.address-of-16-bytes", _invalid),
        ("any address is taken", "forwarding.address-of-3-bytes", _lost_error),
        ("any principal is taken", "forwarding.principal-is-rubbish", _lost_error),
        ("no principal is taken", "forwarding.principal-is-empty", _lost_error),
        ("any API is forwarded", "forwarding.not-forwardable", _lost_error),
        ("Envelopes are nested", "forwarding.envelope-inside", _lost_error),
        ("any version is forwarded", "forwarding.version-inside", _lost_error),
    )
    for family in families():
        if family.name == "forwarding":
            for rule in family:
                if rule.id.endswith(".in-envelope"):
                    yield f"{rule.id} is refused", rule.id, Changed(ApiKey.ENVELOPE, _invalid)


#: These may be tried at a time, as they change nothing.
CONTROLLER_FAULTS: Final[tuple[Row, ...]] = (
    *_refusals(),
    *_lives(),
    *_heartbeats(),
    *_forwarding(),
)


def _not_controller(answer: Any, request: Any) -> None:
    """Set every error code of a response."""
    for field in answer.fields():
        value = getattr(answer, field.attr)
        if field.is_struct:
            for one in (value or ()) if field.array else [value]:
                _not_controller(one, request)
        elif field.name == "ErrorCode":
            setattr(answer, field.attr, ErrorCode.NOT_CONTROLLER)


#: Those that kwire does not offer to clients.
NOT_OFFERED: Final = frozenset(
    {"forwarding.AddRaftVoter.by-broker", "forwarding.RemoveRaftVoter.by-broker"}
)


def _at_broker() -> Iterator[Row]:
    for family in families():
        if family.name == "forwarding":
            for rule in family:
                if rule.id.endswith(".by-broker") and rule.api is not None:
                    yield f"{rule.id}: refused", rule.id, Changed(rule.api, _not_controller)


BROKER_FAULTS: Final[tuple[Row, ...]] = tuple(
    row for row in _at_broker() if row[1] not in NOT_OFFERED
)
#: Those of APIs that kwire's listeners for clients do not offer: they are put before Kafka.
VOTER_FAULTS: Final[tuple[Row, ...]] = tuple(row for row in _at_broker() if row[1] in NOT_OFFERED)
