"""BrokerRegistration: a broker comes to the cluster, or comes again (``ClusterControlManager.registerBroker``, KIP-631).

What it brings is checked: directories that are its own, and features at the levels that the cluster has finalized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.brokers import registered
from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.features import KRAFT_VERSION
from gateway.controller.leader_election import on_restart
from gateway.controller.listeners import checked_listeners
from gateway.controller.records import DIRECTORY_LEVEL
from kwire.cluster.image import METADATA_VERSION
from kwire.messages.broker_registration_response import BrokerRegistrationResponse
from kwire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from kwire.message import Message
    from kwire.messages.broker_registration_request import BrokerRegistrationRequest

#: From here on a broker tells the epoch that it had when it last shut down cleanly (KIP-966).
_PREVIOUS_EPOCH: Final = 3
#: ``DirectoryId.reserved``: LOST, UNASSIGNED and MIGRATING are 0 to 2, and the first hundred are kept for what may come.
_RESERVED_BELOW: Final = 100


def register_broker(request: BrokerRegistrationRequest, case: Case) -> Verdict:
    """A new incarnation gets an epoch, the offset at which its registration begins; the same one amends what it said.

    Raises ApiError.
    """
    if not case.may_on_cluster("CLUSTER_ACTION"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    before = case.image.brokers.get(request.broker_id)
    same = before is not None and before.incarnation_id == request.incarnation_id
    _check(request, before, case)
    record = _record(request, case)
    if before is not None and same:
        record.fenced, record.in_controlled_shutdown = before.fenced, before.in_controlled_shutdown
        record.broker_epoch = before.broker_epoch
        records: list[Message] = [record]
    else:
        clean = before is not None and case.version >= _PREVIOUS_EPOCH and before.broker_epoch == request.previous_broker_epoch
        record.broker_epoch = case.next_offset
        # The registration comes last: a leader that dies halfway leaves the broker to register, and clean up, again.
        records = [*on_restart(request.broker_id, case, clean=clean), record]

    def written(last_offset: int) -> None:
        if before is not None and not same:
            case.sessions.forget(registered(before))
        case.sessions.register(registered(record), last_offset)

    answer = BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    return Verdict(records, answer, atomic=False, written=written)


def _check(request: BrokerRegistrationRequest, before: RegisterBrokerRecord | None, case: Case) -> None:
    if request.cluster_id != case.settings.cluster_id:
        raise ApiError(
            Error.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {case.settings.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if (
        before is not None
        and before.incarnation_id != request.incarnation_id
        and case.sessions.is_valid(registered(before), case.steady_ms)
    ):
        raise ApiError(Error.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id.")
    if request.is_migrating_zk_broker:
        raise ApiError(Error.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    if case.level >= DIRECTORY_LEVEL:
        _check_directories(request, case)
    _check_features(request, case)


def _check_directories(request: BrokerRegistrationRequest, case: Case) -> None:
    directories = request.log_dirs
    if not directories:
        raise _invalid("No directories specified in request")
    if any(_is_reserved(one) for one in directories):
        raise _invalid("Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise _invalid("Duplicate directory ID in request")
    wanted = set(directories)
    for broker_id, broker in case.image.brokers.items():
        taken = wanted.intersection(broker.log_dirs)
        if taken and broker_id != request.broker_id:
            raise _invalid(f"Broker {broker_id} is already registered with directory {min(taken)}")


def _is_reserved(directory: Uuid) -> bool:
    """Is that no id of a directory, but one of those that stand for something else (``DirectoryId.reserved``)?"""
    return int.from_bytes(directory, "big") < _RESERVED_BELOW


def _check_features(request: BrokerRegistrationRequest, case: Case) -> None:
    """Every feature must be supported at the level that is finalized; of one that a broker does not name it has only 0."""
    finalized = {**case.image.features, KRAFT_VERSION: case.kraft_version}
    offered = {one.name for one in request.features}
    for one in request.features:
        level = finalized.get(one.name, 0)
        if not one.min_supported_version <= level <= one.max_supported_version:
            raise _unsupported(one.name, level, one.min_supported_version, one.max_supported_version)
    if METADATA_VERSION not in offered:
        raise _invalid(f"Request features do not contain '{METADATA_VERSION}'")
    for name, level in finalized.items():
        if level and name not in offered:
            raise _unsupported(name, level, 0, 0)


def _unsupported(name: str, level: int, low: int, high: int) -> ApiError:
    return ApiError(
        Error.UNSUPPORTED_VERSION,
        f"Unable to register because the broker does not support finalized version {level} of {name}. The broker wants a version"
        f" between {low} and {high}, inclusive.",
    )


def _invalid(why: str) -> ApiError:
    return ApiError(Error.INVALID_REGISTRATION, why)


def _record(request: BrokerRegistrationRequest, case: Case) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        rack=request.rack,
        end_points=[
            BrokerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
            for one in checked_listeners(request.listeners)
        ],
        features=[
            BrokerFeature(
                name=one.name,
                min_supported_version=one.min_supported_version,
                max_supported_version=one.max_supported_version,
            )
            for one in request.features
        ],
        log_dirs=list(request.log_dirs) if case.level >= DIRECTORY_LEVEL else [],
    )
