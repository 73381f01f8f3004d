"""BrokerRegistration: brokers that may register, their epochs, and the records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.controller.features import default_features
from kwire.protocol import ErrorCode
from kwire.records.metadata import decode_metadata_record
from kwire.uuid import Uuid
from tests.gateway.controller.broker_cluster import CLUSTER_ID, BrokerCluster
from tests.gateway.controller.cluster import Forbidden, made, offered

FEATURES = {
    "metadata.version": (7, 30),
    **{name: (0, level) for name, level in default_features(30).items()},
}
DIRECTORY = Uuid(b"d" * 16)
SESSION_MS = 9_000


def request(
    broker_id: int = 1, *, features: dict[str, tuple[int, int]] = FEATURES, **other: Any
) -> Any:
    fields = {
        "cluster_id": CLUSTER_ID,
        "incarnation_id": Uuid(b"i" * 16),
        "log_dirs": [DIRECTORY],
        **other,
    }
    return made(
        "BrokerRegistrationRequest", broker_id=broker_id, features=offered(features), **fields
    )


def refusal(
    it: BrokerCluster, asked: Any, version: int = 4, forbidden: Forbidden = ()
) -> ErrorCode:
    """The error; nothing may be written for it."""
    before = len(it.log)
    answer = it.ask(asked, version, forbidden)
    assert (len(it.log), answer.broker_epoch) == (before, -1)
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize("broker_id", [-1, -7, -(2**31)])
def test_broker_with_a_negative_id_is_refused_and_leads_nothing(broker_id: int) -> None:
    it = BrokerCluster((1,))
    assert refusal(it, request(broker_id)) == ErrorCode.INVALID_REGISTRATION
    elsewhere = request(broker_id, cluster_id="another")
    assert refusal(it, elsewhere) == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_record_has_the_request_and_the_epoch_is_its_offset() -> None:
    it = BrokerCluster()
    listeners = [{"name": "L", "host": "h", "port": 65535, "security_protocol": 3}]
    answer = it.ask(request(7, rack="r", listeners=listeners))
    written = decode_metadata_record(it.log[-1])
    version, record = written[1], it.image.brokers[7]
    assert written[2] == record
    assert (answer.error_code, answer.broker_epoch, version) == (0, len(it.log) - 1, 4)
    assert (record.broker_epoch, record.fenced, record.in_controlled_shutdown) == (
        len(it.log) - 1,
        True,
        False,
    )
    assert [(one.name, one.host, one.port, one.security_protocol) for one in record.end_points] == [
        ("L", "h", 65535, 3)
    ]
    assert {
        one.name: (one.min_supported_version, one.max_supported_version) for one in record.features
    } == FEATURES
    assert (record.rack, record.log_dirs, record.cordoned_log_dirs) == ("r", [DIRECTORY], None)


@pytest.mark.parametrize(("level", "version"), [(7, 1), (8, 2), (16, 2), (17, 3), (29, 3), (30, 4)])
def test_record_has_the_version_of_its_level(level: int, version: int) -> None:
    it = BrokerCluster(level=level)
    features = {
        "metadata.version": (7, 30),
        **{name: (0, one) for name, one in default_features(30).items()},
    }
    assert it.ask(request(features=features)).error_code == 0
    assert decode_metadata_record(it.log[-1])[1] == version
    assert it.image.brokers[1].log_dirs == ([DIRECTORY] if level >= 17 else [])


def test_epoch_counts_control_records_of_the_quorum() -> None:
    it = BrokerCluster()
    it.controller.log_ends(1000)
    decision = it.decide(request(), 4)
    answer: Any = decision.answer
    assert answer.broker_epoch == 1000


def test_another_incarnation_waits_for_the_end_of_the_session() -> None:
    it = BrokerCluster([1])
    other = request(incarnation_id=Uuid(b"o" * 16))
    it.now_ms += SESSION_MS
    assert refusal(it, other) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    before = it.broker(1).broker_epoch
    it.now_ms += 1
    assert it.ask(other).broker_epoch == len(it.log) - 1 > before
    assert it.broker(1).fenced


def test_broker_without_a_heartbeat_has_no_session() -> None:
    it = BrokerCluster()
    it.ask(request())
    assert it.ask(request(incarnation_id=Uuid(b"o" * 16))).error_code == 0


def test_new_controller_gives_every_unfenced_broker_a_session() -> None:
    it = BrokerCluster([1])
    it.now_ms += 60_000
    it.elect()
    assert refusal(it, request()) == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_broker_of_a_former_process_of_the_controller_has_no_session() -> None:
    """The process holds the data directory, so the one before it has ended. Other brokers, and its
    own at a later election, keep their sessions.
    """
    it = BrokerCluster([1, 2])
    own = it.broker(1).incarnation_id
    it.settings = replace(it.settings, broker_incarnation=own)
    it.elect()
    assert refusal(it, request()) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    it.settings = replace(it.settings, broker_incarnation=Uuid(b"\xee" * 16))
    it.elect()
    assert it.register(1).error_code == 0
    assert it.register(2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_same_incarnation_updates_its_registration() -> None:
    it = BrokerCluster()
    it.ask(request())
    epoch = it.broker(1).broker_epoch
    it.heartbeat(1)
    answer = it.ask(request(rack="another"))
    assert (answer.error_code, answer.broker_epoch) == (0, epoch)
    broker = it.broker(1)
    assert (broker.rack, broker.broker_epoch, broker.fenced) == ("another", epoch, False)


def test_broker_must_read_its_updated_registration() -> None:
    it = BrokerCluster()
    epoch = it.ask(request()).broker_epoch
    it.ask(request(rack="another"))
    beat = made(
        "BrokerHeartbeatRequest",
        broker_id=1,
        broker_epoch=epoch,
        want_fence=True,
        current_metadata_offset=epoch,
    )
    assert not it.ask(beat).is_caught_up
    beat.current_metadata_offset = len(it.log) - 1
    assert it.ask(beat).is_caught_up


def test_other_cluster_id_is_refused() -> None:
    assert (
        refusal(BrokerCluster(), request(cluster_id="another")) == ErrorCode.INCONSISTENT_CLUSTER_ID
    )


def test_zookeeper_broker_is_refused() -> None:
    assert (
        refusal(BrokerCluster(), request(is_migrating_zk_broker=True))
        == ErrorCode.BROKER_ID_NOT_REGISTERED
    )


def test_registration_needs_cluster_action() -> None:
    forbidden = [("CLUSTER_ACTION", "CLUSTER", "kafka-cluster")]
    assert (
        refusal(BrokerCluster(), request(), forbidden=forbidden)
        == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )


@pytest.mark.parametrize(
    "directories",
    [
        [],
        [Uuid(bytes(16))],
        [Uuid(bytes(15) + b"\x01")],
        [Uuid(bytes(15) + b"\x63")],
        [DIRECTORY, DIRECTORY],
    ],
    ids=["none", "migrating", "unassigned", "the last that is reserved", "twice"],
)
def test_invalid_directories_are_refused(directories: list[Uuid]) -> None:
    assert refusal(BrokerCluster(), request(log_dirs=directories)) == ErrorCode.INVALID_REGISTRATION
    assert BrokerCluster(level=16).ask(request(log_dirs=directories)).error_code == 0


def test_first_directory_id_that_is_not_reserved_is_accepted() -> None:
    assert BrokerCluster().ask(request(log_dirs=[Uuid(bytes(15) + b"\x64")])).error_code == 0


@pytest.mark.parametrize(
    "wrong",
    [{"name": ""}, {"security_protocol": 4}, {"security_protocol": -1}, {"port": 0}],
    ids=lambda wrong: repr(wrong),
)
def test_listeners_that_kafka_cannot_read_are_refused(wrong: dict[str, Any]) -> None:
    listener = {"name": "L", "host": "h", "port": 1, "security_protocol": 0, **wrong}
    assert refusal(BrokerCluster(), request(listeners=[listener])) == ErrorCode.INVALID_REGISTRATION


def test_last_of_two_listeners_with_one_name_counts() -> None:
    it = BrokerCluster()
    it.ask(
        request(
            listeners=[
                {"name": name, "host": host, "port": 1}
                for name, host in (("L", "a"), ("M", "b"), ("L", "c"))
            ]
        )
    )
    assert [(one.name, one.host) for one in it.broker(1).end_points] == [("L", "c"), ("M", "b")]


def test_repeated_feature_must_be_supported_each_time() -> None:
    asked = request()
    asked.features = request(features={"metadata.version": (7, 29)}).features + asked.features
    assert refusal(BrokerCluster(), asked) == ErrorCode.UNSUPPORTED_VERSION


def test_directory_of_another_broker_is_refused() -> None:
    it = BrokerCluster()
    it.ask(request(1))
    assert refusal(it, request(2)) == ErrorCode.INVALID_REGISTRATION
    it.ask(made("UnregisterBrokerRequest", broker_id=1))
    assert it.ask(request(2)).error_code == 0


def test_broker_must_support_every_finalized_feature() -> None:
    it = BrokerCluster()
    low = {**FEATURES, "metadata.version": (7, 29)}
    assert refusal(it, request(features=low)) == ErrorCode.UNSUPPORTED_VERSION
    silent = {name: levels for name, levels in FEATURES.items() if name != "group.version"}
    assert refusal(it, request(features=silent)) == ErrorCode.UNSUPPORTED_VERSION
    assert BrokerCluster(level=21).ask(request(features=silent)).error_code == 0


def test_features_without_metadata_version_are_refused() -> None:
    silent = {name: levels for name, levels in FEATURES.items() if name != "metadata.version"}
    assert refusal(BrokerCluster(), request(features=silent)) == ErrorCode.INVALID_REGISTRATION


def test_unknown_feature_must_allow_level_zero() -> None:
    it = BrokerCluster()
    assert (
        refusal(it, request(features={**FEATURES, "new.version": (1, 2)}))
        == ErrorCode.UNSUPPORTED_VERSION
    )
    assert it.ask(request(features={**FEATURES, "new.version": (0, 2)})).error_code == 0


def test_broker_must_support_the_kraft_version() -> None:
    assert refusal(BrokerCluster(kraft_version=1), request()) == ErrorCode.UNSUPPORTED_VERSION
    assert (
        BrokerCluster(kraft_version=1)
        .ask(request(features={**FEATURES, "kraft.version": (0, 1)}))
        .error_code
        == 0
    )


def test_new_incarnation_leaves_the_isr_before_it_registers() -> None:
    it = BrokerCluster([1, 2])
    it.create([1, 2])
    before = len(it.log)
    it.now_ms += SESSION_MS + 1
    it.heartbeat(2)
    it.register(1)
    assert (it.partition().isr, it.partition().leader) == ([2], 2)
    names = [decode_metadata_record(value)[2].NAME for value in it.log[before:]]
    assert names == ["PartitionChangeRecord", "RegisterBrokerRecord"]
    assert (
        it.broker(1).broker_epoch == before
    )  # where the registration begins, not where its record is


def test_registration_may_make_more_records_than_an_operation_holds() -> None:
    """The ISRs that a broker is still in must not keep it from registering again."""
    it = BrokerCluster([1, 2])
    for topic in ("a", "b", "c"):
        asked = made(
            "CreateTopicsRequest",
            topics=[{"name": topic, "num_partitions": 4000, "replication_factor": 2}],
        )
        operation = it.decide(asked, 7).operation
        assert operation is not None
        it.commit(operation)
    it.now_ms += SESSION_MS + 1
    decision = it.decide(request(1, incarnation_id=Uuid(b"o" * 16), log_dirs=[it.directory(1)]), 4)
    assert decision.operation is not None
    assert [len(batch) for batch in decision.operation.batches] == [*[2_000] * 6, 1]
    assert decision.operation.records[-1].message.NAME == "RegisterBrokerRecord"
