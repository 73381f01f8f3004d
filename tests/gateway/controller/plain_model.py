"""Models the admin APIs with dictionaries: a second implementation of their errors and of the
resulting state.

It knows names, numbers and what is set, and neither records nor brokers; one node is there to place
partitions on. Requests are those of ``plain_requests``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from kwire.cluster import Image
from tests.gateway.controller.plain_requests import NAMES, QUOTAS

UNKNOWN_TOPIC, INVALID_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR = (
    3,
    17,
    36,
    37,
    38,
)
(
    INVALID_CONFIG,
    INVALID_REQUEST,
    UNSUPPORTED_MECHANISM,
    RESOURCE_NOT_FOUND,
    DUPLICATE,
    UNACCEPTABLE,
) = 40, 42, 33, 91, 92, 93
_TOPIC, _SET, _DELETE = 2, 0, 1


class Model:
    """The state of a cluster: topics, configs, ACLs, quotas, credentials."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}  #: name -> partitions
        self.configs: dict[str, dict[str, str]] = {}
        self.acls: set[tuple[Any, ...]] = set()
        self.quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        self.users: set[tuple[str, int]] = set()

    def ask(self, request: Any) -> Counter[int]:
        """The error codes of the answer, and how often each is in it; what is done is done."""
        errors = getattr(self, _HANDLERS[request.NAME])(request)
        return Counter(error for error in errors if error)

    def _create_topics(self, request: Any) -> Iterator[int]:
        times = Counter(topic.name for topic in request.topics)
        for topic in {topic.name: topic for topic in request.topics}.values():
            error = INVALID_REQUEST if times[topic.name] > 1 else self._why_not_created(topic)
            if not error and not request.validate_only:
                self.topics[topic.name] = 1 if topic.num_partitions < 0 else topic.num_partitions
                self._set(topic.name, {config.name: config.value for config in topic.configs})
            yield error

    def _why_not_created(self, topic: Any) -> int:
        if topic.name not in NAMES:
            return INVALID_TOPIC
        if topic.name in self.topics:
            return TOPIC_EXISTS
        if any(_is_bad(config.name, config.value) for config in topic.configs):
            return INVALID_CONFIG
        if topic.replication_factor == 0:
            return INVALID_REPLICATION_FACTOR
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            return INVALID_PARTITIONS
        return INVALID_REPLICATION_FACTOR if topic.replication_factor > 1 else 0

    def _delete_topics(self, request: Any) -> Iterator[int]:
        times = Counter(topic.name for topic in request.topics)
        for name, count in times.items():
            if count == 1 and name in self.topics:
                del self.topics[name]
                self.configs.pop(name, None)
                yield 0
            else:
                yield INVALID_REQUEST if count > 1 else UNKNOWN_TOPIC

    def _create_partitions(self, request: Any) -> Iterator[int]:
        times = Counter(topic.name for topic in request.topics)
        for topic in {topic.name: topic for topic in request.topics}.values():
            if times[topic.name] > 1:
                yield INVALID_REQUEST
            elif topic.name not in self.topics:
                yield UNKNOWN_TOPIC
            elif topic.count <= self.topics[topic.name]:
                yield INVALID_PARTITIONS
            else:
                if not request.validate_only:
                    self.topics[topic.name] = topic.count
                yield 0

    def _incremental_alter_configs(self, request: Any) -> Iterator[int]:
        for resource in request.resources:
            name, now = resource.resource_name, dict(self.configs.get(resource.resource_name, {}))
            bad = False
            for config in resource.configs:
                if config.config_operation == _DELETE:
                    now.pop(config.name, None)
                elif config.config_operation == _SET:
                    bad = bad or _is_bad(config.name, config.value)
                    now[config.name] = config.value
                else:
                    bad = bad or config.name != "cleanup.policy"
                    before = now.get(config.name, "delete").split(",")
                    now[config.name] = ",".join(dict.fromkeys([*before, config.value]))
            error = INVALID_CONFIG if bad else UNKNOWN_TOPIC if name not in self.topics else 0
            if not error and not request.validate_only:
                self._set(name, now)
            yield error

    def _alter_configs(self, request: Any) -> Iterator[int]:
        for resource in request.resources:
            if any(_is_bad(config.name, config.value) for config in resource.configs):
                yield INVALID_CONFIG
            elif resource.resource_name not in self.topics:
                yield UNKNOWN_TOPIC
            else:
                if not request.validate_only:
                    self._set(
                        resource.resource_name,
                        {config.name: config.value for config in resource.configs},
                    )
                yield 0

    def _set(self, name: str, configs: dict[str, str]) -> None:
        self.configs.pop(name, None)
        if configs:
            self.configs[name] = configs

    def _create_acls(self, request: Any) -> Iterator[int]:
        for acl in request.creations:
            good = ":" in acl.principal and bool(acl.resource_name)
            if good:
                self.acls.add(_acl(acl))
            yield 0 if good else INVALID_REQUEST

    def _delete_acls(self, request: Any) -> Iterator[int]:
        for one in request.filters:
            found = {
                acl
                for acl in self.acls
                if one.resource_name_filter in (None, acl[0])
                and one.pattern_type_filter in (1, acl[1])
                and one.principal_filter in (None, acl[2])
            }
            self.acls -= found
            yield 0

    def _alter_client_quotas(self, request: Any) -> Iterator[int]:
        for entry in request.entries:
            entity = tuple(sorted((one.entity_type, one.entity_name) for one in entry.entity))
            if any(op.key not in QUOTAS[:2] and not op.remove for op in entry.ops):
                yield INVALID_REQUEST
                continue
            if not request.validate_only:
                now = self.quotas.pop(entity, {})
                for op in entry.ops:
                    now.pop(op.key, None)
                    if not op.remove:
                        now[op.key] = op.value
                if now:
                    self.quotas[entity] = now
            yield 0

    def _alter_user_scram_credentials(self, request: Any) -> Iterator[int]:
        """One change a user: the first mistake is told, and a second change is one."""
        changes = [*request.deletions, *request.upsertions]
        errors: dict[str, int] = {}
        for one in changes:
            if not errors.get(one.name):
                errors[one.name] = DUPLICATE if one.name in errors else self._why_no_credential(one)
        for one in changes:
            if not errors[one.name]:
                (self.users.discard if one in request.deletions else self.users.add)(
                    (one.name, one.mechanism)
                )
        yield from errors.values()

    def _why_no_credential(self, one: Any) -> int:
        if not one.name:
            return UNACCEPTABLE
        if one.mechanism not in (1, 2):
            return UNSUPPORTED_MECHANISM
        if not hasattr(one, "iterations"):
            return 0 if (one.name, one.mechanism) in self.users else RESOURCE_NOT_FOUND
        return UNACCEPTABLE if one.iterations < 4096 else 0

    def seen(self) -> dict[str, Any]:
        """All of it, to be compared with ``seen`` of an image."""
        return {
            "topics": self.topics,
            "configs": self.configs,
            "acls": self.acls,
            "quotas": self.quotas,
            "users": self.users,
        }


def seen(image: Image) -> dict[str, Any]:
    """An image as the model would draw it."""
    return {
        "topics": {
            name: len(image.partitions[topic_id]) for name, topic_id in image.topic_ids.items()
        },
        "configs": {
            name: dict(configs)
            for (kind, name), configs in image.configs.items()
            if kind == _TOPIC and configs
        },
        "acls": {
            (
                one.resource_name,
                one.pattern_type,
                one.principal,
                one.host,
                one.operation,
                one.permission_type,
            )
            for one in image.acls.values()
        },
        "quotas": {
            tuple(sorted(entity)): dict(values) for entity, values in image.quotas.items() if values
        },
        "users": {(name, mechanism) for mechanism, name in image.scram},
    }


def _acl(one: Any) -> tuple[Any, ...]:
    return (
        one.resource_name,
        one.resource_pattern_type,
        one.principal,
        one.host,
        one.operation,
        one.permission_type,
    )


def _is_bad(name: str, value: str) -> bool:
    return name == "unknown" or value == "x"


_HANDLERS: Final = {
    "CreateTopicsRequest": "_create_topics",
    "DeleteTopicsRequest": "_delete_topics",
    "CreatePartitionsRequest": "_create_partitions",
    "IncrementalAlterConfigsRequest": "_incremental_alter_configs",
    "AlterConfigsRequest": "_alter_configs",
    "CreateAclsRequest": "_create_acls",
    "DeleteAclsRequest": "_delete_acls",
    "AlterClientQuotasRequest": "_alter_client_quotas",
    "AlterUserScramCredentialsRequest": "_alter_user_scram_credentials",
}
