"""Describes the registrations of brokers and controllers (``ClusterDelta``, ``BrokerRegistration``,
``ControllerRegistration``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kwire.cluster.entities.held import find_in, keys_of, records_of, remove_from, set_in
from kwire.cluster.field_types import (
    BOOLEAN,
    INT32,
    INT64,
    STRING,
    TEXTS,
    ListOf,
    MapOf,
    Nullable,
    Struct,
)
from kwire.cluster.image import Image
from kwire.cluster.kind import Field, Fields, FoldError, Kind, Place, RecordType, shown, types_of
from kwire.message import Message
from kwire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.messages.fence_broker_record import FenceBrokerRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.messages.register_controller_record import RegisterControllerRecord
from kwire.messages.unfence_broker_record import UnfenceBrokerRecord
from kwire.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.messages.unregister_controller_record import UnregisterControllerRecord
from kwire.protocol import SecurityProtocol, name_of
from kwire.protocol.metadata_version import (
    MINIMUM_METADATA_VERSION,
    register_broker_record_version,
)
from kwire.uuid import Uuid

_LISTENERS: Final = ListOf(
    Struct({"listenerName": STRING, "securityProtocol": STRING, "host": STRING, "port": INT32})
)


def _listeners(end_points: Iterable[Any]) -> list[Fields]:
    return [
        {
            "listenerName": one.name,
            "securityProtocol": name_of(SecurityProtocol, one.security_protocol),
            "host": one.host,
            "port": one.port,
        }
        for one in sorted(end_points, key=lambda one: one.name)
    ]


def _supported(features: Iterable[Any]) -> dict[str, str]:
    return {
        one.name: f"{one.min_supported_version}-{one.max_supported_version}"
        for one in sorted(features, key=lambda one: one.name)
    }


_LISTENERS_FIELD: Final = Field(_LISTENERS, lambda node: _listeners(node.end_points))
_SUPPORTED_FEATURES: Final = Field(MapOf(STRING), lambda node: _supported(node.features))
_INCARNATION_ID: Final = Field(STRING, lambda node: str(node.incarnation_id))


def texts(ids: Iterable[Uuid]) -> list[str]:
    """Return the texts of ids."""
    return [str(one) for one in ids]


_BROKER_FIELDS: Final = {
    "id": Field(INT32, lambda broker: broker.broker_id),
    "epoch": Field(INT64, lambda broker: broker.broker_epoch),
    "incarnationId": _INCARNATION_ID,
    "listeners": _LISTENERS_FIELD,
    "supportedFeatures": _SUPPORTED_FEATURES,
    "rack": Field(Nullable(STRING), lambda broker: broker.rack),
    "fenced": Field(BOOLEAN, lambda broker: broker.fenced),
    "inControlledShutdown": Field(BOOLEAN, lambda broker: broker.in_controlled_shutdown),
    "isMigratingZkBroker": Field(BOOLEAN, lambda broker: broker.is_migrating_zk_broker),
    "directories": Field(TEXTS, lambda broker: texts(broker.log_dirs)),
    "cordonedDirectories": Field(
        Nullable(TEXTS),
        lambda broker: (
            None if broker.cordoned_log_dirs is None else texts(broker.cordoned_log_dirs)
        ),
    ),
}
#: Fields that a registration loses when it is written at an old version.
_BROKER_BEFORE: Final[dict[int, dict[str, Any]]] = {
    4: {},
    3: {"cordoned_log_dirs": None},
    2: {"cordoned_log_dirs": None, "log_dirs": []},
    1: {"cordoned_log_dirs": None, "log_dirs": [], "is_migrating_zk_broker": False},
    0: {
        "cordoned_log_dirs": None,
        "log_dirs": [],
        "is_migrating_zk_broker": False,
        "in_controlled_shutdown": False,
    },
}


def broker_fields(broker: Any) -> Fields:
    """Return the fields of a registration."""
    return shown(_BROKER_FIELDS, broker)


def register_broker_version(level: int) -> int:
    """Return RegisterBrokerRecord's version at a metadata.version; 0 at those before Kafka 4."""
    return register_broker_record_version(level) if level >= MINIMUM_METADATA_VERSION else 0


def _unregister_broker(image: Image, record: Any) -> None:
    _registered(image, record.NAME, record.broker_id, record.broker_epoch)
    del image.brokers[record.broker_id]


def _change_broker(image: Image, record: Any) -> None:
    broker = _registered(image, record.NAME, record.broker_id, record.broker_epoch)
    changes: dict[str, Any] = {}
    if record.fenced:
        changes["fenced"] = record.fenced > 0
    if record.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
    if record.log_dirs:
        changes["log_dirs"] = list(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changes["cordoned_log_dirs"] = list(record.cordoned_log_dirs)
    image.brokers[record.broker_id] = broker.copy(**changes)


def _fence(fenced: bool) -> Callable[[Image, Any], None]:
    def change(image: Image, record: Any) -> None:
        broker = _registered(image, record.NAME, record.id, record.epoch)
        image.brokers[record.id] = broker.copy(fenced=fenced)

    return change


def _registered(image: Image, what: str, broker_id: int, epoch: int) -> Any:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise FoldError(f"{what} for broker {broker_id}, which is not registered")
    if broker.broker_epoch != epoch:
        raise FoldError(
            f"{what} for broker {broker_id} with epoch {epoch}, its epoch is {broker.broker_epoch}"
        )
    return broker


def _broker_snapshot(image: Image) -> Iterator[tuple[Message, int]]:
    version = register_broker_version(image.metadata_version)
    for _, broker in sorted(image.brokers.items()):
        yield broker.copy(**_BROKER_BEFORE[version]), version


def _broker_tree(image: Image) -> Iterator[tuple[Place, Fields]]:
    for broker_id, broker in sorted(image.brokers.items()):
        yield ("cluster", "brokers", str(broker_id)), broker_fields(broker)


BROKER: Final = Kind(
    kind="broker",
    records=(
        RecordType(RegisterBrokerRecord, "broker", set_in("brokers", "broker_id"), ("broker_id",)),
        RecordType(UnregisterBrokerRecord, "broker", _unregister_broker, ("broker_id",)),
        RecordType(BrokerRegistrationChangeRecord, "broker", _change_broker, ("broker_id",)),
        RecordType(FenceBrokerRecord, "broker", _fence(True), ("id",)),
        RecordType(UnfenceBrokerRecord, "broker", _fence(False), ("id",)),
    ),
    keys=keys_of("brokers"),
    find=find_in("brokers"),
    snapshot=_broker_snapshot,
    view="brokers",
    key_fields=("id",),
    name=lambda broker: (broker.broker_id,),
    fields=broker_fields,
    types=types_of(_BROKER_FIELDS),
    roots=(("cluster", "brokers"),),
    tree=_broker_tree,
)


_CONTROLLER_FIELDS: Final = {
    "id": Field(INT32, lambda controller: controller.controller_id),
    "incarnationId": _INCARNATION_ID,
    "zkMigrationReady": Field(BOOLEAN, lambda controller: controller.zk_migration_ready),
    "listeners": _LISTENERS_FIELD,
    "supportedFeatures": _SUPPORTED_FEATURES,
}
_ID: Final = "controller_id"


def controller_fields(controller: Any) -> Fields:
    """Return the fields of a registration."""
    return shown(_CONTROLLER_FIELDS, controller)


def _controller_tree(image: Image) -> Iterator[tuple[Place, Fields]]:
    for controller_id, controller in sorted(image.controllers.items()):
        yield ("cluster", "controllers", str(controller_id)), controller_fields(controller)


CONTROLLER: Final = Kind(
    kind="controller",
    records=(
        RecordType(
            RegisterControllerRecord,
            "controller",
            set_in("controllers", _ID),
            (_ID,),
        ),
        RecordType(
            UnregisterControllerRecord,
            "controller",
            remove_from("controllers", _ID),
            (_ID,),
        ),
    ),
    keys=keys_of("controllers"),
    find=find_in("controllers"),
    snapshot=records_of("controllers"),
    view="controllers",
    key_fields=("id",),
    name=lambda controller: (controller.controller_id,),
    fields=controller_fields,
    types=types_of(_CONTROLLER_FIELDS),
    roots=(("cluster", "controllers"),),
    tree=_controller_tree,
)
