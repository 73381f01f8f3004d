"""Makes random requests of any class and version, with names that exist, ids of the cluster, and
extreme values.

Values come from small pools, so that a million requests use the same topics, groups and users, and
the state of the cluster stays small. The caller sets the share of values that are extremes of their
types.
"""

from __future__ import annotations

import functools
import random
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.message import FieldInfo, Message, Struct
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid

#: Topics that exist when a run begins.
TOPICS: Final = tuple(f"t{number}" for number in range(6))
_TOPIC_POOL: Final = ("__cluster_metadata", "__cluster_metadata_audit", *TOPICS, "n0", "n1", "n2")
_GROUPS: Final = tuple(f"g{number}" for number in range(8))
_USERS: Final = ("admin", "outsider", "u0", "u1", "u2")
_PRINCIPALS: Final = (
    "User:admin",
    "User:outsider",
    "User:u0",
    "User:*",
    "User:ANONYMOUS",
    "Group:x",
    "User",
    "",
)
_CONFIGS: Final = (
    "retention.ms",
    "cleanup.policy",
    "min.insync.replicas",
    "segment.bytes",
    "max.message.bytes",
    "compression.type",
    "unclean.leader.election.enable",
    "follower.replication.throttled.replicas",
    "log.cleaner.threads",
    "max.connections",
    "listener.name.x.ssl.keystore.password",
    "advertised.listeners",
    "log.retention.ms",
    "consumer.session.timeout.ms",
    "share.session.timeout.ms",
    "metrics",
    "interval.ms",
    "match",
    "my.plugin.password",
    "",
    "kafka.server",
)
_CONFIG_VALUES: Final = (
    "1",
    "0",
    "-1",
    "100000",
    "delete",
    "compact,delete",
    "zstd",
    "true",
    "false",
    "*",
    "0:1,1:2",
    "",
    "x=y",
    "INFO",
    "PLAINTEXT://h:1",
    "9223372036854775807",
    "9223372036854775808",
    "1e9",
    "nan",
    "a," * 200,
    "y" * 5000,
)
_FEATURES: Final = (
    "metadata.version",
    "kraft.version",
    "group.version",
    "transaction.version",
    "share.version",
    "x",
)
_HOSTS: Final = ("*", "127.0.0.1", "10.0.0.0/8", "::1", "0.0.0.0", "h", "", "é☃..x", "256.1.1.1")
_LISTENERS: Final = ("CONTROLLER", "BROKER", "PLAINTEXT", "x", "")
#: Strings that fit nowhere.
_ODD_STRINGS: Final = (
    "",
    "\0",
    ".",
    "..",
    "a b",
    "ü€😀",
    "*",
    "/",
    "%s{}",
    "x" * 249,
    "x" * 250,
    "y" * 4096,
    "z" * 32767,
)

_STRINGS: Final = {
    "group_id": _GROUPS,
    "groups": _GROUPS,
    "groups_names": _GROUPS,
    "coordinator_keys": _GROUPS,
    "key": (*_GROUPS, "consumer_byte_rate"),
    "topic": _TOPIC_POOL,
    "topic_name": _TOPIC_POOL,
    "topic_names": _TOPIC_POOL,
    "resource_name": (*_TOPIC_POOL, *_GROUPS, "1", "", "9", "kafka-cluster", "*", "User:u0"),
    "resource_name_filter": (*_TOPIC_POOL, *_GROUPS, "kafka-cluster", "*"),
    "entity_type": ("user", "client-id", "ip", "x"),
    "entity_name": (*_USERS, "127.0.0.1", "::1", "h", ""),
    "match": (*_USERS, "127.0.0.1"),
    "principal": _PRINCIPALS,
    "principal_filter": _PRINCIPALS,
    "principal_name": _USERS,
    "owner_principal_name": (*_USERS, ""),
    "principal_type": ("User", "Group", ""),
    "owner_principal_type": ("User", "Group", ""),
    "host": _HOSTS,
    "host_filter": _HOSTS,
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "x"),
    "feature": _FEATURES,
    "configuration_keys": _CONFIGS,
    "value": _CONFIG_VALUES,
    "protocol_type": ("consumer", "connect", ""),
    "protocol_name": ("range", "x"),
    "group_instance_id": ("i0", "i1"),
    "committed_metadata": ("", "m", "m" * 4096, "m" * 4097),
    "transactional_id": ("x", ""),
    "states_filter": ("Stable", "Empty", "x"),
    "types_filter": ("classic", "consumer", "x"),
    "state_filters": ("Ongoing", "x"),
    "transactional_id_pattern": (".*", "(", ""),
    "rack": ("r", ""),
    "rack_id": ("", "r"),
    "client_software_name": ("fuzz", "-", "a b"),
    "client_software_version": ("1", ".", ""),
    "reason": ("", "why"),
}
_NODE_IDS: Final = (1, 1, 2, 3, 4, 0, -1)
_PARTITIONS: Final = (0, 0, 0, 1, 2, -1)
_EPOCHS: Final = (0, 1, -1, 2, 5)
_OFFSETS: Final = (0, 1, 20, 100, -1, -2, -3, -4, -5)
_NUMBERS: Final = {
    **dict.fromkeys(
        (
            "broker_id",
            "broker_ids",
            "candidate_id",
            "controller_id",
            "leader_id",
            "voter_id",
            "replica_id",
        ),
        _NODE_IDS,
    ),
    **dict.fromkeys(("new_isr", "replicas", "node_id", "preferred_successors"), _NODE_IDS),
    **dict.fromkeys(
        ("partition", "partition_index", "partition_indexes", "partitions", "index"), _PARTITIONS
    ),
    **dict.fromkeys(
        (
            "current_leader_epoch",
            "epoch",
            "last_fetched_epoch",
            "last_offset_epoch",
            "leader_epoch",
        ),
        _EPOCHS,
    ),
    **dict.fromkeys(
        (
            "member_epoch",
            "committed_leader_epoch",
            "partition_epoch",
            "session_epoch",
            "producer_epoch",
        ),
        _EPOCHS,
    ),
    **dict.fromkeys(("generation_id", "generation_id_or_member_epoch"), (-1, 1, 1, 2, 3, 0)),
    "timeout_ms": (0, 20, 1000, 1000, 1000),
    "max_wait_ms": (0, 1, 5, 20),
    **dict.fromkeys(("session_timeout_ms",), (6000, 10_000, 0, 1_800_000)),
    "rebalance_timeout_ms": (1, 50, 1000),
    **dict.fromkeys(
        ("fetch_offset", "log_start_offset", "offset", "end_offset", "last_offset"), _OFFSETS
    ),
    **dict.fromkeys(
        ("timestamp", "high_watermark", "committed_offset", "position", "current_metadata_offset"),
        _OFFSETS,
    ),
    **dict.fromkeys(("max_bytes", "partition_max_bytes"), (1 << 20, 1, 0, 100)),
    "min_bytes": (0, 1),
    "num_partitions": (1, 2, 3, -1, 0),
    "replication_factor": (1, 1, -1, 2, 0),
    "count": (1, 2, 3, 6),
    "replica_epoch": (0, 1, 2, -1),
    "session_id": (0, 0, 1),
    "response_partition_limit": (1, 2, 2000, 0),
    "acks": (1, -1, 0),
    **dict.fromkeys(
        ("max_lifetime_ms", "renew_period_ms", "expiry_time_period_ms"),
        (-1, 0, 1, 1000, 86_400_000),
    ),
    "iterations": (4096, 16384, 1),
    "max_version_level": (0, 1, 2, 25, 30),
    "upgrade_type": (1, 2, 3, 0),
    **dict.fromkeys(
        ("resource_type", "resource_types", "resource_type_filter"),
        (2, 2, 3, 4, 1, 5, 6, 7, 8, 16, 32, 0),
    ),
    **dict.fromkeys(("operation", "config_operation"), tuple(range(16))),
    "permission_type": (0, 1, 2, 3),
    **dict.fromkeys(("resource_pattern_type", "pattern_type_filter"), (0, 1, 2, 3, 4)),
    **dict.fromkeys(
        ("key_type", "match_type", "election_type", "endpoint_type", "isolation_level"),
        (0, 1, 2, 3),
    ),
    "leader_recovery_state": (0, 1, 2),
    "security_protocol": (0, 1, 2, 3),
    "retention_time_ms": (-1, 0, 1000),
    **dict.fromkeys(("min_supported_version", "max_supported_version"), (0, 1, 2, 30)),
}
_BITS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_FLOATS: Final = (0.0, -0.0, 1.5, 1024.0, -1.0, float("inf"), float("nan"), 1e308, 5e-324)


@dataclass
class Known:
    """Names and ids of the running cluster; answers add to them. ``epoch``: the leader's."""

    cluster_id: str
    epoch: int
    topic_ids: deque[Uuid] = field(default_factory=lambda: deque(maxlen=16))
    member_ids: deque[str] = field(default_factory=lambda: deque(maxlen=16))
    hmacs: deque[bytes] = field(default_factory=lambda: deque(maxlen=8))
    broker_epochs: deque[int] = field(default_factory=lambda: deque([0, 1], maxlen=8))


class Values:
    """Makes requests. ``odd``: the share of values that are extremes, 0 to 1."""

    def __init__(self, rng: random.Random, known: Known, odd: float) -> None:
        self.rng, self.known, self.odd = rng, known, odd

    def message(self, cls: type[Message], version: int) -> Any:
        """A request of ``cls`` with every field of ``version`` set. The result may not be
        encodable.
        """
        made: Any = self._struct(cls, version, cls.NAME)
        rng = self.rng
        if version in cls.FLEXIBLE_VERSIONS and rng.random() < 0.03:
            made.unknown_tags = [
                (number, rng.randbytes(rng.choice((0, 5, 200)))) for number in (1000, 2000)
            ]
        return made

    def _struct(self, cls: type[Struct], version: int, api: str) -> Struct:
        return cls(**{f.attr: self._field(cls, f, version, api) for f in _fields(cls, version)})

    def _field(self, cls: type[Struct], f: FieldInfo, version: int, api: str) -> Any:
        rng = self.rng
        if f.nullable_at(version) and rng.random() < (
            0.3 if f.attr in ("cluster_id", "member_id") else 0.12
        ):
            return None
        if not f.array:
            return self._value(cls, f, version, api)
        found = [self._value(cls, f, version, api) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]
        if found and rng.random() < 0.04:
            found *= rng.choice((2, 3, 40))
        return found

    def _value(self, cls: type[Struct], f: FieldInfo, version: int, api: str) -> Any:
        kind = f.type
        if f.is_struct:
            return self._struct(cls.struct_class(kind), version, api)
        if kind in _BITS or kind in ("uint16", "uint32"):
            return self._number(f)
        if kind == "string":
            return self._string(cls, f, api)
        return self._other(kind, f.attr)

    def _number(self, f: FieldInfo) -> int:
        rng = self.rng
        if f.type.startswith("u"):
            return rng.choice((0, 1, 9092, 65535))
        pool = _NUMBERS.get(f.attr)
        if f.attr in ("broker_epoch", "previous_broker_epoch"):
            pool = (*self.known.broker_epochs, -1)
        elif f.attr in ("leader_epoch", "current_leader_epoch", "replica_epoch"):
            pool = (*_EPOCHS, self.known.epoch, self.known.epoch)
        if pool is None or rng.random() < self.odd:
            top = 1 << _BITS[f.type]
            return rng.choice((0, 1, -1, 2, 100, top - 1, top - 2, -top, rng.randrange(-top, top)))
        return rng.choice(pool)

    def _string(self, cls: type[Struct], f: FieldInfo, api: str) -> str:
        rng = self.rng
        if rng.random() < self.odd:
            return rng.choice(_ODD_STRINGS)
        if f.attr == "cluster_id":
            return rng.choice(
                (self.known.cluster_id, self.known.cluster_id, "", "another-cluster-000000")
            )
        if f.attr == "member_id":
            return rng.choice(("", *self.known.member_ids))
        if f.attr == "name":
            return rng.choice(_names(cls.NAME, api))
        return rng.choice(_STRINGS.get(f.attr) or _ODD_STRINGS)

    def _other(self, kind: str, attr: str) -> Any:
        rng = self.rng
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "float64":
            return rng.choice(_FLOATS)
        if kind == "uuid":
            if attr == "topic_id" and rng.random() < 0.8:
                return rng.choice((METADATA_TOPIC_ID, *self.known.topic_ids))
            return rng.choice(
                (ZERO_UUID, METADATA_TOPIC_ID, Uuid(bytes(15) + b"\2"), Uuid(rng.randbytes(16)))
            )
        if attr == "hmac" and self.known.hmacs and rng.random() < 0.8:
            return rng.choice(self.known.hmacs)
        if attr == "metadata" and rng.random() < 0.7:
            return struct.pack(">hih", 1, 1, 2) + b"t0" + struct.pack(">ii", -1, 0)
        return rng.randbytes(rng.choice((0, 1, 4, 16, 32, 64, 300)))


@functools.cache
def _fields(cls: type[Struct], version: int) -> tuple[FieldInfo, ...]:
    return tuple(f for f in cls.fields() if f.at(version))


@functools.cache
def _names(struct_name: str, api: str) -> Sequence[str]:
    """The pool of values for a field that the schema only calls ``name``."""
    for part, pool in (
        ("Config", _CONFIGS),
        ("Feature", _FEATURES),
        ("Listener", _LISTENERS),
        ("Endpoint", _LISTENERS),
    ):
        if part in struct_name:
            return pool
    if "Scram" in api:
        return _USERS
    if api in ("JoinGroupRequest",):
        return ("range", "roundrobin", "x")
    if "Voter" in api or "Epoch" in api:
        return _LISTENERS
    return _TOPIC_POOL
