"""Lists the configuration keys of groups: names, types, defaults and limits of Kafka 4.4.0.

They are read from ``GroupConfig`` of its jars. The limits are a broker's default limits
(``group.consumer.max...``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.base.java.text import is_duration
from gateway.controller.configs.config_def import ConfigKey, ConfigType, Synonym, Value

BOOLEAN, STRING, INT, LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LIST
_BY_DURATION: Final = "by_duration:"


def _reset_strategy(value: Value) -> str | None:
    if value in ("earliest", "latest") or (
        isinstance(value, str)
        and value.startswith(_BY_DURATION)
        and is_duration(value.removeprefix(_BY_DURATION))
    ):
        return None
    return "must be earliest, latest or by_duration: and a time as ISO 8601 writes it, PnDTnHnMn.nS"


_KEYS: Final = (
    ConfigKey(
        "consumer.assignment.interval.ms",
        INT,
        "1000",
        low=0,
        high=15000,
        synonyms=(Synonym("group.consumer.assignment.interval.ms", "1000"),),
        help="The time between two assignments of the group, ms.",
    ),
    # The longest interval is shorter than the shortest session timeout below, so ``validateValues``
    # of ``GroupConfig``, which compares the two, cannot fail here.
    ConfigKey(
        "consumer.heartbeat.interval.ms",
        INT,
        "5000",
        low=5000,
        high=15000,
        synonyms=(Synonym("group.consumer.heartbeat.interval.ms", "5000"),),
        help="The time between two heartbeats of a member, ms.",
    ),
    ConfigKey(
        "consumer.session.timeout.ms",
        INT,
        "45000",
        low=45000,
        high=60000,
        synonyms=(Synonym("group.consumer.session.timeout.ms", "45000"),),
        help="How long a member may be silent before it is taken out of the group, ms.",
    ),
    ConfigKey(
        "errors.deadletterqueue.copy.record.enable",
        BOOLEAN,
        "false",
        synonyms=(Synonym("errors.deadletterqueue.copy.record.enable", "false"),),
        help="Whether the dead-letter queue of a share group gets keys and values.",
    ),
    ConfigKey(
        "errors.deadletterqueue.topic.name",
        STRING,
        "",
        synonyms=(Synonym("errors.deadletterqueue.topic.name", ""),),
        help="The dead-letter queue: a topic for records that a share group gave up.",
    ),
    ConfigKey(
        "share.assignment.interval.ms",
        INT,
        "1000",
        low=0,
        high=15000,
        synonyms=(Synonym("group.share.assignment.interval.ms", "1000"),),
        help="The time between two assignments of the group, ms.",
    ),
    ConfigKey(
        "share.auto.offset.reset",
        STRING,
        "latest",
        check=_reset_strategy,
        synonyms=(Synonym("share.auto.offset.reset", "latest"),),
        help="Where a share group begins to read: earliest, latest, or by_duration:PnDTnHnMn.nS "
        "before now.",
    ),
    ConfigKey(
        "share.delivery.count.limit",
        INT,
        "5",
        low=2,
        high=10,
        synonyms=(Synonym("group.share.delivery.count.limit", "5"),),
        help="How often a record is delivered to a share group before it is given up.",
    ),
    # As for consumers: below the shortest session timeout.
    ConfigKey(
        "share.heartbeat.interval.ms",
        INT,
        "5000",
        low=5000,
        high=15000,
        synonyms=(Synonym("group.share.heartbeat.interval.ms", "5000"),),
        help="The time between two heartbeats of a member, ms.",
    ),
    ConfigKey(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        choices=("read_committed", "read_uncommitted"),
        synonyms=(Synonym("share.isolation.level", "read_uncommitted"),),
        help="Whether a share group reads records of transactions that are not committed.",
    ),
    ConfigKey(
        "share.partition.max.record.locks",
        INT,
        "2000",
        low=100,
        high=4000,
        synonyms=(Synonym("group.share.partition.max.record.locks", "2000"),),
        help="How many records of a partition may be with the members of a share group at once.",
    ),
    # The limits are ``group.share.min.record.lock.duration.ms`` and ``...max...`` of a broker.
    ConfigKey(
        "share.record.lock.duration.ms",
        INT,
        "30000",
        low=15000,
        high=60000,
        synonyms=(Synonym("group.share.record.lock.duration.ms", "30000"),),
        help="How long a member of a share group may keep a record, ms.",
    ),
    ConfigKey(
        "share.renew.acknowledge.enable",
        BOOLEAN,
        "true",
        synonyms=(Synonym("share.renew.acknowledge.enable", "true"),),
        help="Whether a member of a share group may ask for more time with a record.",
    ),
    ConfigKey(
        "share.session.timeout.ms",
        INT,
        "45000",
        low=45000,
        high=60000,
        synonyms=(Synonym("group.share.session.timeout.ms", "45000"),),
        help="How long a member may be silent before it is taken out of the group, ms.",
    ),
    ConfigKey(
        "streams.assignment.interval.ms",
        INT,
        "1000",
        low=0,
        high=15000,
        synonyms=(Synonym("group.streams.assignment.interval.ms", "1000"),),
        help="The time between two assignments of the group, ms.",
    ),
    ConfigKey(
        "streams.assignor.name",
        STRING,
        "sticky",
        synonyms=(Synonym("group.streams.assignors", "sticky"),),
        help="The assignor of a streams group; the first of the broker's if it is not set.",
    ),
    ConfigKey(
        "streams.heartbeat.interval.ms",
        INT,
        "5000",
        low=5000,
        high=15000,
        synonyms=(Synonym("group.streams.heartbeat.interval.ms", "5000"),),
        help="The time between two heartbeats of a member, ms.",
    ),
    ConfigKey(
        "streams.initial.rebalance.delay.ms",
        INT,
        "3000",
        low=0,
        synonyms=(Synonym("group.streams.initial.rebalance.delay.ms", "3000"),),
        help="How long the first assignment of a streams group waits for more members, ms.",
    ),
    ConfigKey(
        "streams.num.standby.replicas",
        INT,
        "0",
        low=0,
        high=2,
        synonyms=(Synonym("group.streams.num.standby.replicas", "0"),),
        help="How many copies of its state a streams group keeps ready.",
    ),
    ConfigKey(
        "streams.rack.aware.assignment.tags",
        LIST,
        "",
        synonyms=(Synonym("group.streams.rack.aware.assignment.tags", ""),),
        help="The client tags by which standby replicas of a streams group are spread.",
    ),
    ConfigKey(
        "streams.session.timeout.ms",
        INT,
        "45000",
        low=45000,
        high=60000,
        synonyms=(Synonym("group.streams.session.timeout.ms", "45000"),),
        help="How long a member may be silent before it is taken out of the group, ms.",
    ),
)
#: By name, in the order of the names.
GROUP_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType({key.name: key for key in _KEYS})
