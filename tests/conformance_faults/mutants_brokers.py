"""Bugs of the controller towards brokers: registrations, heartbeats, ISRs, forwarded requests."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from gateway.controller import controller, isr_change
from gateway.controller.apis import (
    allocate_producer_ids,
    alter_partition,
    broker_heartbeat,
    broker_registration,
    unregister_broker,
)
from gateway.controller.apis.broker_heartbeat import BrokerState
from gateway.controller.brokers import UNFENCE, change
from gateway.controller.errors import ApiError
from gateway.controller.request_context import ControllerResult
from gateway.controller.sessions import Sessions
from gateway.handlers.apis import envelope
from kwire.errors import DecodeError
from kwire.messages.default_principal_data import DefaultPrincipalData
from kwire.messages.unregister_broker_response import UnregisterBrokerResponse
from tests.conformance_faults.mutants import mutant, wrapped
from tests.patches import patched

Context = AbstractContextManager[Any]


def _any_epoch(module: Any) -> Context:
    def check(original: Any, broker_id: int, epoch: int, image: Any) -> Any:
        known = image.brokers.get(broker_id)
        return original(broker_id, epoch if known is None else known.broker_epoch, image)

    return wrapped(module, "check_broker_epoch", check)


# --- registrations


@mutant("registration.other-cluster")
def brokers_of_other_clusters_register() -> Context:
    """The cluster id of a registration is not compared."""

    def check(original: Any, request: Any, before: Any, context: Any) -> None:
        request.cluster_id = context.settings.cluster_id
        original(request, before, context)

    return wrapped(broker_registration, "_check", check)


@mutant("registration.id-in-use")
def live_brokers_are_replaced() -> Context:
    """A second broker registers with the id of a live one."""

    def check(original: Any, request: Any, before: Any, context: Any) -> None:
        original(request, None, context)

    return wrapped(broker_registration, "_check", check)


@mutant("registration.feature-above")
def features_are_not_compared() -> Context:
    """A broker registers that does not support the finalized level of a feature."""
    return patched(broker_registration, _check_features=lambda request, context: None)


@mutant("registration.directory-reserved")
def reserved_directories_are_taken() -> Context:
    """A broker registers with a reserved directory id."""
    return patched(broker_registration, _is_reserved=lambda directory: False)


@mutant("registration.directory-of-another")
def directories_have_two_owners() -> Context:
    """A broker registers with the directory of another one."""

    def check(original: Any, request: Any, context: Any) -> None:
        try:
            original(request, context)
        except ApiError as error:
            if "already registered" not in str(error):
                raise

    return wrapped(broker_registration, "_check_directories", check)


@mutant("registration.epoch-rises")
def broker_epochs_stay() -> Context:
    """A broker that registers again is told the epoch that it had first."""
    first: dict[int, int] = {}

    def register(original: Any, request: Any, context: Any) -> Any:
        result = yield from original(request, context)
        answer = result.answer
        answer.broker_epoch = first.setdefault(request.broker_id, answer.broker_epoch)
        return result

    return _decides(broker_registration, register)


@mutant("registration.unregister-unknown")
def unknown_brokers_are_unregistered() -> Context:
    """UnregisterBroker of an unknown id gets no error."""

    def unregister(original: Any, request: Any, context: Any) -> Any:
        if request.broker_id not in context.image.brokers:
            return ControllerResult([], UnregisterBrokerResponse())
        return original(request, context)

    return _decides(unregister_broker, unregister)


@mutant("registration.ids-once")
def producer_ids_are_given_twice() -> Context:
    """AllocateProducerIds gives the block of the request before, too."""

    def allocate(original: Any, request: Any, context: Any) -> Any:
        result = original(request, context)
        result.answer.producer_id_start = 0
        return result

    return _decides(allocate_producer_ids, allocate)


@mutant("registration.ids-of-old-epoch")
def producer_ids_are_given_to_old_epochs() -> Context:
    """AllocateProducerIds takes any broker epoch."""
    return _any_epoch(allocate_producer_ids)


# --- heartbeats


@mutant("broker-heartbeat.other-epoch")
def heartbeats_of_any_epoch_count() -> Context:
    """BrokerHeartbeat takes any broker epoch."""
    return _any_epoch(broker_heartbeat)


@mutant("broker-heartbeat.behind-stays-fenced")
def brokers_need_not_catch_up() -> Context:
    """A broker is unfenced before it has read its own registration."""
    return patched(Sessions, registered_at=lambda self, broker: -1)


@mutant("broker-heartbeat.unfenced")
def brokers_stay_fenced() -> Context:
    """A broker is not unfenced when it has caught up."""

    def next_state(original: Any, state: BrokerState, *more: Any) -> BrokerState:
        found: BrokerState = original(state, *more)
        return state if found is BrokerState.UNFENCED else found

    return wrapped(broker_heartbeat, "_next_state", next_state)


@mutant("broker-heartbeat.fenced-on-demand")
def brokers_are_not_fenced_on_demand() -> Context:
    """A broker that asks to be fenced is not."""

    def next_state(original: Any, state: Any, broker: Any, request: Any, context: Any) -> Any:
        request.want_fence = False
        return original(state, broker, request, context)

    return wrapped(broker_heartbeat, "_next_state", next_state)


@mutant("broker-heartbeat.no-record-without-change")
def heartbeats_make_records() -> Context:
    """A heartbeat that changes nothing makes a record."""

    def cordoned(broker: Any, request: Any, context: Any) -> list[Any]:
        return [] if broker.fenced else [change(broker, fenced=UNFENCE)]

    return patched(broker_heartbeat, _cordoned=cordoned)


# --- ISRs


@mutant("alter-partition.other-epoch")
def isrs_are_changed_by_any_epoch() -> Context:
    """AlterPartition takes any broker epoch."""
    return _any_epoch(alter_partition)


@mutant("alter-partition.fenced-replica")
def fenced_replicas_are_in_sync() -> Context:
    """A fenced broker joins the ISR."""
    return patched(isr_change, _is_eligible=lambda replica, context: True)


@mutant("alter-partition.no-replica")
def any_broker_is_in_sync() -> Context:
    """A broker that has no replica of the partition joins the ISR."""
    return patched(isr_change, _check_isr=lambda isr, recovery_state, before: None)


@mutant("alter-partition.old-partition-epoch")
def old_partition_epochs_are_taken() -> Context:
    """The partition epoch of AlterPartition is not compared."""

    def check(original: Any, broker_id: int, wanted: Any, before: Any) -> None:
        original(broker_id, wanted._replace(partition_epoch=before.partition_epoch), before)

    return wrapped(isr_change, "_check_epochs", check)


@mutant("alter-partition.not-leader")
def followers_change_the_isr() -> Context:
    """A broker that does not lead a partition changes its ISR."""

    def check(original: Any, broker_id: int, wanted: Any, before: Any) -> None:
        original(before.leader, wanted, before)

    return wrapped(isr_change, "_check_epochs", check)


@mutant("alter-partition.shrinks")
def isrs_do_not_shrink() -> Context:
    """AlterPartition answers with the ISR that was asked for and keeps the old one."""

    def answer(original: Any, asked: Any, *more: Any) -> Any:
        found = original(asked, *more)
        if "isr" in found:
            found["isr"] = [*found["isr"], 1 << 30]
        return found

    return wrapped(alter_partition, "_answer", answer)


# --- forwarding


@mutant("forwarding.principal-is-rubbish")
def principals_are_not_decoded() -> Context:
    """An envelope whose principal cannot be decoded is opened."""

    def decode(original: Any, data: bytes) -> Any:
        try:
            return original(data)
        except DecodeError:
            return original(b"\0\0" + DefaultPrincipalData(type="User", name="ANONYMOUS").encode(0))

    return wrapped(envelope, "decode_principal", decode)


@mutant("forwarding.not-forwardable")
def every_request_is_forwarded() -> Context:
    """An envelope may have any request inside."""
    return patched(envelope, FORWARDABLE=frozenset(range(100)))


@mutant("forwarding.inner-header")
def envelopes_have_their_own_correlation_id() -> Context:
    """The response inside an envelope has another correlation id than the request inside."""

    def header(original: Any, key: int, version: int, number: int, **more: Any) -> Any:
        return original(key, version, number + 1, **more)

    return wrapped(envelope, "encode_response_header", header)


@mutant("forwarding.address-of-3-bytes")
def addresses_are_not_checked() -> Context:
    """The client's address in an envelope may have any length."""
    return patched(envelope, _host=lambda address: "127.0.0.1")


def _decides(module: Any, change: Any) -> Context:
    """Wrap the decision of an API, which its descriptor holds."""
    api = module.API
    changed = replace(api, decide=lambda request, context: change(api.decide, request, context))
    return wrapped(
        controller,
        "admin_api",
        lambda original, key: changed if key == api.key else original(key),
    )
