"""Rules of BrokerRegistration, UnregisterBroker and AllocateProducerIds (KIP-631).

Registrations that have to be refused are sent to every cluster; if one is taken it is removed
again. Rules that register a broker change the cluster, and unregister it at the end.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance import brokers
from kwire.conformance.brokers import Broker
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import OTHER_CLUSTER, require_follower, require_leader
from kwire.conformance.requests import NO_NODE
from kwire.conformance.rule import CONTROLLER, Changes, Family
from kwire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kwire.messages.broker_registration_request import Feature
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import Uuid

_APIS: Final = (ApiKey.BROKER_REGISTRATION, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM)
FAMILY: Final = Family(
    "registration", "Registration of brokers", roles=CONTROLLER, apis=_APIS, since="3.0"
)
_LIVES: Final = (*_APIS, ApiKey.BROKER_HEARTBEAT, ApiKey.UNREGISTER_BROKER)
_IDS: Final = (ApiKey.ALLOCATE_PRODUCER_IDS, *_LIVES)
_SECTION: Final = "Broker Registration and Heartbeats"
#: Kafka keeps the first hundred ids for other uses (``DirectoryId.reserved``).
_RESERVED: Final = Uuid(bytes(15) + b"\x05")


def _refused(probe: Probe, *errors: ErrorCode, **fields: Any) -> None:
    answer = brokers.register(probe, require_leader(probe), Broker(), **fields)
    probe.expect_error(answer.error_code, *errors)


def _ranges(probe: Probe, **changed: Any) -> list[Any]:
    """The features of a valid registration, some of them with another range or (None) left out."""
    request: Any = brokers.registration(probe, require_leader(probe), Broker())
    found = []
    for one in request.features:
        if one.name in changed and changed[one.name] is None:
            continue
        if one.name in changed:
            one.min_supported_version, one.max_supported_version = changed[one.name]
        found.append(one)
    return found


@FAMILY.rule("other-cluster", source="KIP-631", section=_SECTION)
def other_cluster(probe: Probe) -> None:
    """The registration of a broker of another cluster is refused with INCONSISTENT_CLUSTER_ID."""
    _refused(probe, ErrorCode.INCONSISTENT_CLUSTER_ID, cluster_id=OTHER_CLUSTER)


@FAMILY.rule("feature-above", source="KIP-631", section=_SECTION, since="3.3")
def feature_above(probe: Probe) -> None:
    """The registration of a broker whose lowest metadata.version is above the cluster's is refused
    with UNSUPPORTED_VERSION.
    """
    features = _ranges(probe, **{"metadata.version": (30_000, 30_001)})
    _refused(probe, ErrorCode.UNSUPPORTED_VERSION, features=features)


@FAMILY.rule("feature-below", source="KIP-631", section=_SECTION, since="3.3")
def feature_below(probe: Probe) -> None:
    """The registration of a broker whose highest metadata.version is below the cluster's is refused
    with UNSUPPORTED_VERSION.
    """
    features = _ranges(probe, **{"metadata.version": (1, 1)})
    _refused(probe, ErrorCode.UNSUPPORTED_VERSION, features=features)


@FAMILY.rule(
    "feature-not-enabled", source="ClusterControlManager", section="registerBroker", since="4.0"
)
def feature_not_enabled(probe: Probe) -> None:
    """The registration of a broker that cannot work without a feature that the cluster has not
    enabled is refused with UNSUPPORTED_VERSION.
    """
    features = _ranges(probe)
    features.append(
        Feature(name="kwire.conform.version", min_supported_version=1, max_supported_version=1)
    )
    _refused(probe, ErrorCode.UNSUPPORTED_VERSION, features=features)


@FAMILY.rule(
    "no-metadata-version", source="ClusterControlManager", section="registerBroker", since="4.0"
)
def no_metadata_version(probe: Probe) -> None:
    """The registration of a broker that does not name metadata.version is refused."""
    features = _ranges(probe, **{"metadata.version": None})
    errors = (ErrorCode.INVALID_REGISTRATION, ErrorCode.UNSUPPORTED_VERSION)
    _refused(probe, *errors, features=features)


@FAMILY.rule("no-directories", source="KIP-858", section="Broker registration", since="3.7")
def no_directories(probe: Probe) -> None:
    """The registration of a broker without log directories is refused with INVALID_REGISTRATION."""
    _refused(probe, ErrorCode.INVALID_REGISTRATION, log_dirs=[])


@FAMILY.rule("directory-twice", source="KIP-858", section="Broker registration", since="3.7")
def directory_twice(probe: Probe) -> None:
    """The registration of a broker that names a log directory twice is refused with
    INVALID_REGISTRATION.
    """
    _refused(probe, ErrorCode.INVALID_REGISTRATION, log_dirs=[Broker().directory] * 2)


@FAMILY.rule("directory-reserved", source="KIP-858", section="Broker registration", since="3.7")
def directory_reserved(probe: Probe) -> None:
    """The registration of a broker with a directory id that is reserved is refused with
    INVALID_REGISTRATION.
    """
    _refused(probe, ErrorCode.INVALID_REGISTRATION, log_dirs=[_RESERVED])


@FAMILY.rule("not-controller", source="KIP-631", section=_SECTION)
def not_controller(probe: Probe) -> None:
    """A controller that is not the active one refuses registrations and heartbeats with
    NOT_CONTROLLER.
    """
    answer = brokers.register(probe, require_follower(probe), Broker())
    probe.expect_error(answer.error_code, ErrorCode.NOT_CONTROLLER)
    answer = brokers.heartbeat(probe, Broker())
    probe.expect_error(answer.error_code, ErrorCode.NOT_CONTROLLER, where="the heartbeat")


@FAMILY.rule(
    "unregister-unknown",
    source="ClusterControlManager",
    section="unregisterBroker",
    apis=(ApiKey.UNREGISTER_BROKER, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM),
)
def unregister_unknown(probe: Probe) -> None:
    """To unregister a broker that is not registered is refused with BROKER_ID_NOT_REGISTERED."""
    require_leader(probe)
    probe.expect_error(brokers.unregister(probe, NO_NODE), ErrorCode.BROKER_ID_NOT_REGISTERED)


def _ids(probe: Probe, broker: Broker) -> Any:
    request = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
    return probe.call(request)


@FAMILY.rule("ids-of-unknown", source="KIP-730", section="AllocateProducerIds", apis=_IDS)
def ids_of_unknown(probe: Probe) -> None:
    """A broker that is not registered gets no producer ids but STALE_BROKER_EPOCH."""
    require_leader(probe)
    probe.expect_error(_ids(probe, Broker(epoch=1)).error_code, ErrorCode.STALE_BROKER_EPOCH)


# --- brokers that are registered ------------------------------------------------------------------


@FAMILY.rule(
    "epoch", source="KIP-631", section=_SECTION, apis=_LIVES, changes=Changes.CLUSTER, alone=True
)
def epoch(probe: Probe) -> None:
    """The broker epoch is not below the committed offset of the log when the broker registers."""
    quorum = require_leader(probe)
    end = brokers.log_end(probe, quorum)
    broker = brokers.registered(probe, quorum)
    probe.expect(
        broker.epoch >= end - 1, f"the broker epoch is {broker.epoch}; the log ended at {end}"
    )


@FAMILY.rule(
    "same-incarnation",
    source="ClusterControlManager",
    section="registerBroker",
    since="4.0",
    apis=_LIVES,
    changes=Changes.CLUSTER,
    alone=True,
)
def same_incarnation(probe: Probe) -> None:
    """A broker that registers again in the same incarnation keeps its broker epoch."""
    quorum = require_leader(probe)
    broker = brokers.registered(probe, quorum)
    before = broker.epoch
    answer = brokers.register(probe, quorum, broker, rack="r2")
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    probe.expect(
        answer.broker_epoch == before,
        f"the broker epoch changes from {before} to {answer.broker_epoch}",
    )


@FAMILY.rule(
    "id-in-use",
    source="KIP-631",
    section="Broker ID Conflicts",
    apis=_LIVES,
    changes=Changes.CLUSTER,
    alone=True,
)
def id_in_use(probe: Probe) -> None:
    """A second broker with the id of a live one is refused with DUPLICATE_BROKER_REGISTRATION."""
    quorum = require_leader(probe)
    broker = brokers.registered(probe, quorum)
    brokers.heartbeat(probe, broker, brokers.NOTHING_READ, want_fence=True)
    answer = brokers.register(probe, quorum, Broker(id=broker.id))
    probe.expect_error(answer.error_code, ErrorCode.DUPLICATE_BROKER_REGISTRATION)


@FAMILY.rule(
    "directory-of-another",
    source="KIP-858",
    section="Broker registration",
    since="3.7",
    apis=_LIVES,
    changes=Changes.CLUSTER,
    alone=True,
)
def directory_of_another(probe: Probe) -> None:
    """A broker with a log directory that another one has registered is refused with
    INVALID_REGISTRATION.
    """
    quorum = require_leader(probe)
    broker = brokers.registered(probe, quorum)
    answer = brokers.register(probe, quorum, Broker(directory=broker.directory))
    probe.expect_error(answer.error_code, ErrorCode.INVALID_REGISTRATION)


@FAMILY.rule(
    "epoch-rises",
    source="KIP-631",
    section=_SECTION,
    apis=_LIVES,
    changes=Changes.CLUSTER,
    alone=True,
)
def epoch_rises(probe: Probe) -> None:
    """A broker that was unregistered and registers again gets a higher broker epoch."""
    quorum = require_leader(probe)
    broker = brokers.registered(probe, quorum)
    probe.expect_error(brokers.unregister(probe, broker.id), ErrorCode.NONE)
    answer = brokers.register(probe, quorum, Broker(id=broker.id))
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    probe.expect(
        answer.broker_epoch > broker.epoch,
        f"the broker epoch is {answer.broker_epoch}, before it was {broker.epoch}",
    )


@FAMILY.rule(
    "record",
    source="KIP-631",
    section="Record Formats: BrokerRecord",
    apis=_LIVES,
    changes=Changes.CLUSTER,
    alone=True,
)
def record(probe: Probe) -> None:
    """A registration is in the log: id, epoch, incarnation, endpoints and features of the broker,
    which is fenced.
    """
    quorum = require_leader(probe)
    end = brokers.log_end(probe, quorum)
    broker = brokers.registered(probe, quorum)
    written = [
        (offset, one)
        for offset, one in brokers.records_from(probe, quorum, end)
        if isinstance(one, RegisterBrokerRecord) and one.broker_id == broker.id
    ]
    probe.expect(len(written) == 1, f"the log has {len(written)} registrations of the broker")
    offset, one = written[0]
    probe.expect(
        (one.broker_epoch, one.incarnation_id) == (broker.epoch, broker.incarnation),
        f"the record has epoch {one.broker_epoch} and incarnation {one.incarnation_id}",
    )
    probe.expect(one.broker_epoch <= offset, f"the epoch is above the record's offset {offset}")
    endpoints = [(at.name, at.host, at.port) for at in one.end_points]
    probe.expect(
        endpoints == [("PLAINTEXT", "127.0.0.1", 1)], f"the record has endpoints {endpoints}"
    )
    probe.expect(
        "metadata.version" in {found.name for found in one.features},
        "the record lacks metadata.version",
    )
    probe.expect(one.fenced, "the record has a broker that is not fenced")


@FAMILY.rule(
    "unregister-record",
    source="KIP-631",
    section="Registration State",
    apis=_LIVES,
    changes=Changes.CLUSTER,
    alone=True,
)
def unregister_record(probe: Probe) -> None:
    """A broker that is unregistered is removed in the log, with its broker epoch."""
    quorum = require_leader(probe)
    broker = brokers.registered(probe, quorum)
    end = brokers.log_end(probe, quorum)
    probe.expect_error(brokers.unregister(probe, broker.id), ErrorCode.NONE)
    written = [
        one.broker_epoch
        for _, one in brokers.records_from(probe, quorum, end)
        if isinstance(one, UnregisterBrokerRecord) and one.broker_id == broker.id
    ]
    probe.expect(
        written == [broker.epoch],
        f"the log removes epochs {written} of the broker, whose epoch is {broker.epoch}",
    )


@FAMILY.rule(
    "ids-once",
    source="KIP-730",
    section="AllocateProducerIds",
    apis=_IDS,
    changes=Changes.CLUSTER,
    alone=True,
)
def ids_once(probe: Probe) -> None:
    """Blocks of producer ids do not overlap."""
    broker = brokers.registered(probe, require_leader(probe))
    blocks = [_ids(probe, broker) for _ in range(2)]
    for one in blocks:
        probe.expect_error(one.error_code, ErrorCode.NONE)
        probe.expect(one.producer_id_len > 0, f"the block has {one.producer_id_len} ids")
    first, second = blocks
    probe.expect(
        second.producer_id_start >= first.producer_id_start + first.producer_id_len,
        f"a block of {first.producer_id_len} ids begins at {first.producer_id_start}, the next at "
        f"{second.producer_id_start}",
    )


@FAMILY.rule(
    "ids-of-old-epoch",
    source="KIP-730",
    section="AllocateProducerIds",
    apis=_IDS,
    changes=Changes.CLUSTER,
    alone=True,
)
def ids_of_old_epoch(probe: Probe) -> None:
    """A broker with another epoch than that of its registration gets no producer ids but
    STALE_BROKER_EPOCH.
    """
    broker = brokers.registered(probe, require_leader(probe))
    broker.epoch -= 1
    probe.expect_error(_ids(probe, broker).error_code, ErrorCode.STALE_BROKER_EPOCH)
