"""Requests of brokers and administrators to a controller; each meets the state that the ones
before left.

The tests send them to Kafka's controller and to kwire's. The brokers are simulated: they register,
send heartbeats, stop sending them and unregister.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.controller.features import SUPPORTED
from kwire.message import Message
from kwire.uuid import Uuid
from tests.gateway.controller.cluster import create, made, offered
from tools.process import PATIENCE

#: How long a session is at both of them, ms: as short as a busy machine can bear. Requests between
#: two silences take tenths of a second where nothing else runs.
SESSION_MS: Final = round(2000 * PATIENCE)
#: As if the broker had read everything, whatever there is; as if it had read nothing.
ALL, NOTHING = 1 << 40, 0
UPGRADE, SAFE, UNSAFE = 1, 2, 3


@dataclass
class Side:
    """One of the two controllers: what it calls the cluster, and each life of a broker."""

    cluster_id: str
    epochs: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ask:
    """A request at a version. ``registers``: the broker whose epoch is in the answer."""

    about: str
    make: Callable[[Side], Message]
    version: int
    registers: int | None = None


@dataclass(frozen=True)
class Silence:
    """No broker sends a request until ``sessions`` session timeouts have passed."""

    sessions: float


#: Two sessions that end this far apart are fenced one after the other.
APART: Final = Silence(0.3)


def directory(broker_id: int, number: int = 0) -> Uuid:
    return Uuid(bytes([0xD0 + number, broker_id]) * 8)


def _register(
    about: str,
    broker_id: int,
    life: int,
    *,
    clean: bool = False,
    version: int = 4,
    without: str = "",
    **other: Any,
) -> Ask:
    ranges = {name: levels for name, levels in SUPPORTED.items() if name != without} | other.pop(
        "ranges", {}
    )
    features = offered(ranges)

    def make(side: Side) -> Message:
        fields = {
            "cluster_id": side.cluster_id,
            "incarnation_id": Uuid(bytes([life]) * 16),
            "previous_broker_epoch": side.epochs.get(broker_id, -1) if clean else -1,
            "log_dirs": [directory(broker_id), directory(broker_id, 1)],
            "listeners": [
                {"name": "BROKER", "host": "127.0.0.1", "port": 1, "security_protocol": 0}
            ],
            "features": features,
            **other,
        }
        return made("BrokerRegistrationRequest", broker_id=broker_id, **fields)

    return Ask(about, make, version, broker_id)


def _beat(
    about: str,
    broker_id: int,
    read: int = ALL,
    *,
    epoch_more: int = 0,
    version: int = 2,
    **wants: Any,
) -> Ask:
    def make(side: Side) -> Message:
        fields = {
            "broker_epoch": side.epochs.get(broker_id, 7) + epoch_more,
            "current_metadata_offset": read,
            **wants,
        }
        return made("BrokerHeartbeatRequest", broker_id=broker_id, **fields)

    return Ask(about, make, version)


def _ids(about: str, broker_id: int, epoch_more: int = 0) -> Ask:
    def make(side: Side) -> Message:
        epoch = side.epochs.get(broker_id, 7) + epoch_more
        return made("AllocateProducerIdsRequest", broker_id=broker_id, broker_epoch=epoch)

    return Ask(about, make, 0)


def _unregister(about: str, broker_id: int) -> Ask:
    return Ask(about, lambda side: made("UnregisterBrokerRequest", broker_id=broker_id), 0)


def _topic(name: str, *assignments: list[int]) -> Ask:
    by_hand = [
        {"partition_index": index, "broker_ids": ids} for index, ids in enumerate(assignments)
    ]
    topic = {"name": name, "assignments": by_hand}
    return Ask(f"topic {name}", lambda side: create(topic), 7)


def _features(about: str, *updates: tuple[str, int, int], version: int = 2, **more: Any) -> Ask:
    asked = [{"feature": name, "max_version_level": level} for name, level, _ in updates]
    for one, (_, _, kind) in zip(asked, updates, strict=True):
        one |= {"upgrade_type": kind} if version else {"allow_downgrade": kind != UPGRADE}
    return Ask(
        about, lambda side: made("UpdateFeaturesRequest", feature_updates=asked, **more), version
    )


def lifecycle() -> Iterator[Ask | Silence]:
    """All of it, in order."""
    yield from _registrations()
    yield from _lives()
    yield from _departures()
    yield from _levels()


def upgrades() -> Iterator[Ask | Silence]:
    """The requests that bring a cluster of release 4.0 to 4.3."""
    yield _register("at an old level", 1, 1)
    yield _register("that knows no newer one", 2, 2, ranges={"metadata.version": (7, 29)})
    yield _beat("serves", 1, cordoned_log_dirs=[directory(1)])
    yield _beat("serves", 2, cordoned_log_dirs=[])
    yield _topic("a", [1, 2])
    for level in (24, 23):
        yield _features(f"down to {level}", ("metadata.version", level, SAFE))
    for kind in (SAFE, UNSAFE):
        yield _features(f"down to 22 by {kind}", ("metadata.version", 22, kind))
    yield _features("down to a level that is not there", ("metadata.version", 6, UNSAFE))
    yield _min_isr("1", "2")
    yield _features("eligible replicas", ("eligible.leader.replicas.version", 1, UPGRADE))
    yield _features("share groups", ("share.version", 1, UPGRADE))
    yield _features("down, not so far", ("metadata.version", 23, SAFE))
    yield _features("a broker does not know it", ("metadata.version", 30, UPGRADE))
    yield _features("as far as all know", ("metadata.version", 29, UPGRADE))
    yield _unregister("the one that does not", 2)
    yield _features("now all do", ("metadata.version", 30, UPGRADE))
    yield _beat("serves, and has a directory that is cordoned", 1, cordoned_log_dirs=[directory(1)])
    yield _register("amended at the new level", 1, 1)
    yield _features("no way back", ("metadata.version", 29, SAFE))
    yield _features("no eligible replicas any more", ("eligible.leader.replicas.version", 0, SAFE))


def _min_isr(broker: str, value: str) -> Ask:
    configs = [{"name": "min.insync.replicas", "config_operation": 0, "value": value}]
    resource = {"resource_type": 4, "resource_name": broker, "configs": configs}
    return Ask(
        "min.insync.replicas",
        lambda side: made("IncrementalAlterConfigsRequest", resources=[resource]),
        1,
    )


def _registrations() -> Iterator[Ask]:
    yield _register("the first", 1, 1)
    yield _register("another cluster", 2, 2, cluster_id="another")
    yield _register("a broker of ZooKeeper", 2, 2, is_migrating_zk_broker=True)
    yield _register("no directories", 2, 2, log_dirs=[])
    yield _register("a reserved directory", 2, 2, log_dirs=[Uuid(bytes(15) + b"\x63")])
    yield _register("a directory twice", 2, 2, log_dirs=[directory(2), directory(2)])
    yield _register("another's directory", 2, 2, log_dirs=[directory(2), directory(1)])
    yield _register("too old", 2, 2, ranges={"metadata.version": (7, 29)})
    yield _register("too new", 2, 2, ranges={"new.version": (1, 1)})
    yield _register("no metadata.version", 2, 2, without="metadata.version")
    yield _register("no group.version", 2, 2, without="group.version")
    yield _register("no kraft.version", 2, 2, without="kraft.version")
    yield _register("an old request", 2, 2, version=3, ranges=dict.fromkeys((), (0, 0)))
    for version in range(3):
        yield _register(f"version {version}", 5, 5, version=version)
    yield _register("the second", 2, 2, rack="r2")
    yield _register("never heard, so it has no session", 2, 12)
    yield _register("amended", 2, 12, rack="r3")
    yield _register("the third", 3, 3)


def _lives() -> Iterator[Ask | Silence]:
    yield _beat("behind", 1, NOTHING, want_fence=True)
    yield _beat("behind, and wants to serve", 1, NOTHING)
    yield _beat("caught up", 1, want_fence=True)
    for broker_id in (1, 2, 3):
        yield _beat("serves", broker_id, cordoned_log_dirs=[])
    yield _beat("another epoch", 1, epoch_more=1)
    yield _beat("nobody", 9)
    yield _register("somebody else while it is there", 1, 21)
    yield _register("itself, amended while it serves", 1, 1, rack="r1")
    yield _beat("behind its amended registration", 1, NOTHING, cordoned_log_dirs=[directory(1)])
    yield _beat("nothing is cordoned any more", 1, cordoned_log_dirs=[])
    yield _topic("a", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    yield _topic("b", [1], [2])
    yield _beat("wants to be fenced", 2, want_fence=True)
    yield _beat("serves again", 2)
    yield _beat("a directory failed", 3, offline_log_dirs=[directory(3, 1)])
    yield _beat("and failed", 3, offline_log_dirs=[directory(3, 1), directory(9)])
    yield _ids("ids", 1)
    yield _ids("more ids", 2)
    yield _ids("ids for another epoch", 2, epoch_more=-1)
    yield _ids("ids for nobody", 9)


def _departures() -> Iterator[Ask | Silence]:
    yield _beat("wants to go, and leads", 1, want_shut_down=True)
    yield _beat("the others have not read", 2, NOTHING)
    yield _beat("wants to go, and must wait", 1, want_shut_down=True)
    yield _beat("they have read", 2)
    yield APART
    yield _beat("so did the third", 3)
    yield APART
    yield _beat("goes", 1, want_shut_down=True)
    yield _beat("is gone", 1, want_shut_down=True)
    yield _register("comes back too early", 1, 31, clean=True)
    yield Silence(1.5)
    yield _register("comes back after a clean shutdown", 1, 31, clean=True)
    yield _beat("serves", 1, cordoned_log_dirs=[])
    yield _register("was killed, and comes back", 2, 32)
    yield _beat("serves", 2, cordoned_log_dirs=[])
    yield _unregister("is forgotten", 3)
    yield _unregister("is forgotten twice", 3)
    yield _beat("is heard, and unknown", 3)
    yield _register("comes again", 3, 33)
    yield _beat("wants both", 3, want_fence=True, want_shut_down=True)


def _levels() -> Iterator[Ask]:
    for version in range(3):
        yield _features(
            f"group.version off and on, version {version}",
            ("group.version", 0, SAFE),
            version=version,
        )
        yield _features(
            f"group.version on, version {version}", ("group.version", 1, UPGRADE), version=version
        )
    yield _features("only looked at", ("group.version", 0, SAFE), validate_only=True)
    yield _features("down, not said so", ("group.version", 0, UPGRADE))
    yield _features("up, said to be down", ("share.version", 1, SAFE), ("share.version", 2, SAFE))
    yield _features("no such level", ("group.version", 2, UPGRADE))
    yield _features("below zero", ("group.version", -1, UNSAFE))
    yield _features("no such kind", ("group.version", 0, 9))
    yield _features("nobody knows it", ("new.version", 1, UPGRADE))
    yield _features("level 29, safely", ("metadata.version", 29, SAFE))
    yield _features("level 29, unsafely", ("metadata.version", 29, UNSAFE))
    yield _features("level 34", ("metadata.version", 34, UPGRADE))
    yield _features("the same level", ("metadata.version", 30, UPGRADE))
    yield _features("kraft.version down", ("kraft.version", 0, SAFE))
    yield _features("nothing", version=2)
