"""BrokerRegistration: registers a broker that starts (``ClusterControlManager.registerBroker``,
KIP-631).

The broker's log directories must be its own, and it must support the levels of features that the
cluster has finalized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision
from gateway.controller.brokers import registered
from gateway.controller.errors import ApiError
from gateway.controller.leader_election import on_restart
from gateway.controller.listeners import check_id, checked_listeners
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.cluster.image import METADATA_VERSION
from kwire.message import Message
from kwire.messages.broker_registration_response import BrokerRegistrationResponse
from kwire.messages.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.protocol.features import KRAFT_VERSION
from kwire.protocol.metadata_version import is_directory_assignment_supported
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from kwire.message import Message
    from kwire.messages.broker_registration_request import BrokerRegistrationRequest

#: From this version on a broker sends its epoch of the last clean shutdown (KIP-966).
_PREVIOUS_EPOCH: Final = 3
#: ``DirectoryId.reserved``: MIGRATING, UNASSIGNED and LOST are 0 to 2, and the first hundred ids
#: are reserved for later use.
_RESERVED_BELOW: Final = 100


def register_broker(
    request: BrokerRegistrationRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return the broker epoch, and the records.

    A new incarnation gets a new epoch, the offset at which its registration begins; the same
    incarnation updates its registration. Raises ApiError for a registration that is invalid.
    """
    before = context.image.brokers.get(request.broker_id)
    # The incarnation is random at each start of a broker, so an equal one is the same process.
    same = before is not None and before.incarnation_id == request.incarnation_id
    _check(request, before, context)
    record = _record(request, context)
    if before is not None and same:
        # The broker has not restarted: it stays unfenced and in its ISRs.
        record.fenced, record.in_controlled_shutdown = before.fenced, before.in_controlled_shutdown
        # The epoch stays, or the requests that the broker has in flight would be stale.
        record.broker_epoch = before.broker_epoch
        records: list[Message] = [record]
    else:
        clean = (
            before is not None
            and context.version >= _PREVIOUS_EPOCH
            # The broker writes the epoch down at a clean shutdown only. An older one means that it
            # has crashed since, and -1 that it does not know (KIP-966).
            and before.broker_epoch == request.previous_broker_epoch
        )
        # An offset is given once, and later ones are larger: every incarnation has a larger epoch.
        record.broker_epoch = context.next_offset
        assert before is None or record.broker_epoch > before.broker_epoch, "broker epochs grow"
        # The registration comes last: a leader that dies halfway leaves the broker to register, and
        # clean up, again.
        changes = yield from on_restart(request.broker_id, context, clean=clean)
        records = [*changes, record]

    def written(last_offset: int) -> None:
        if before is not None and not same:
            # The session of the old incarnation would fence the new one when it ends.
            context.sessions.forget(registered(before))
        context.sessions.register(registered(record), last_offset)

    answer = BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    return ControllerResult(records, answer, atomic=False, written=written)


def _check(
    request: BrokerRegistrationRequest,
    before: RegisterBrokerRecord | None,
    context: ControllerRequestContext,
) -> None:
    # First, as in Kafka: nothing is to be taken from a broker of another cluster (KAFKA-13528).
    if request.cluster_id != context.settings.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {context.settings.cluster_id}, but got cluster ID "
            f"{request.cluster_id}",
        )
    check_id(request.broker_id)
    # A second broker with the same id must not take the registration over from a live one. The same
    # incarnation registers again after its connection was lost.
    if (
        before is not None
        and before.incarnation_id != request.incarnation_id
        and context.sessions.is_valid(registered(before), context.steady_ms)
    ):
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id.",
        )
    if request.is_migrating_zk_broker:  # Kafka 4 has no migration from ZooKeeper (KIP-866)
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "Controller does not support registering ZK brokers.",
        )
    if is_directory_assignment_supported(context.level):
        _check_directories(request, context)
    _check_features(request, context)


def _check_directories(
    request: BrokerRegistrationRequest, context: ControllerRequestContext
) -> None:
    directories = request.log_dirs
    if not directories:
        raise _invalid("No directories specified in request")
    if any(_is_reserved(one) for one in directories):
        raise _invalid("Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise _invalid("Duplicate directory ID in request")
    wanted = set(directories)
    for broker_id, broker in context.image.brokers.items():
        taken = wanted.intersection(broker.log_dirs)
        # A directory that was moved to another broker with its disk must not have two owners
        # (KIP-858).
        if taken and broker_id != request.broker_id:
            raise _invalid(f"Broker {broker_id} is already registered with directory {min(taken)}")


def _is_reserved(directory: Uuid) -> bool:
    """Whether the id is a reserved one that names no directory (``DirectoryId.reserved``)."""
    return int.from_bytes(directory, "big") < _RESERVED_BELOW


def _check_features(request: BrokerRegistrationRequest, context: ControllerRequestContext) -> None:
    """Raise ApiError unless the broker supports the finalized level of every feature.

    It supports a feature that it does not name at level 0 only.
    """
    # The image has no kraft.version, which is in control records (KIP-853).
    finalized = {**context.image.features, KRAFT_VERSION: context.kraft_version}
    offered = {one.name for one in request.features}
    for one in request.features:
        # A feature that is not finalized has level 0, which the broker's range has to include.
        level = finalized.get(one.name, 0)
        if not one.min_supported_version <= level <= one.max_supported_version:
            raise _unsupported(
                one.name, level, one.min_supported_version, one.max_supported_version
            )
    # Kafka 4 refuses it too; before, such a broker was taken for one of the first release.
    if METADATA_VERSION not in offered:
        raise _invalid(f"Request features do not contain '{METADATA_VERSION}'")
    for name, level in finalized.items():
        if level and name not in offered:
            raise _unsupported(name, level, 0, 0)


def _unsupported(name: str, level: int, low: int, high: int) -> ApiError:
    return ApiError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"Unable to register because the broker does not support finalized version {level} of "
        f"{name}. The broker wants a version between {low} and {high}, inclusive.",
    )


def _invalid(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGISTRATION, why)


def _record(
    request: BrokerRegistrationRequest, context: ControllerRequestContext
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        rack=request.rack,
        end_points=[
            BrokerEndpoint(
                name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
            )
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
        log_dirs=list(request.log_dirs) if is_directory_assignment_supported(context.level) else [],
    )


def _refuse(request: BrokerRegistrationRequest, refusal: Refusal) -> Message:
    return BrokerRegistrationResponse(error_code=refusal.error)


API: Final = AdminApi(
    key=ApiKey.BROKER_REGISTRATION,
    operation="registerBroker",
    decide=register_broker,
    refuse=_refuse,
    cluster_operation="CLUSTER_ACTION",
)
