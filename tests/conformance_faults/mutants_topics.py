"""Bugs of the controller in topics, partitions and their configurations."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from gateway.controller import config_changes, controller
from gateway.controller.apis import create_partitions, create_topics, delete_topics
from gateway.controller.errors import ApiError
from gateway.controller.state import State
from kwire.protocol import ErrorCode
from tests.conformance_faults.mutants import mutant, wrapped
from tests.patches import patched

Context = AbstractContextManager[Any]


@mutant("topics.validate-only")
def validation_creates_topics() -> Context:
    """CreateTopics creates a topic that it was to validate only."""

    def decided(original: Any, request: Any, context: Any) -> Any:
        request.validate_only = False
        return original(request, context)

    return wrapped(controller, "_decided", decided)


@mutant("topics.exists")
def names_are_taken_twice() -> Context:
    """A topic of a name that exists gets the error of an invalid name."""

    def check(original: Any, name: str, state: Any) -> None:
        try:
            original(name, state)
        except ApiError as error:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from None

    return wrapped(create_topics, "_check_name", check)


@mutant("topics.name-collides")
def points_are_no_underscores() -> Context:
    """A topic may have a name that differs from another one in a point for an underscore."""
    return patched(State, colliding=lambda self, name: None)


@mutant("topics.name-too-long")
def names_may_be_one_longer() -> Context:
    """A topic name may have 250 characters."""

    def fault(original: Any, name: str) -> Any:
        return original(name[:249])

    return wrapped(create_topics, "name_fault", fault)


@mutant("topics.twice")
def the_last_of_two_topics_counts() -> Context:
    """Of two topics of one name in a request the last one is created."""

    def check(original: Any, name: str, times: int, *more: Any) -> None:
        original(name, 1, *more)

    return wrapped(create_topics, "_check_request", check)


@mutant("topics.config-invalid")
def values_are_not_checked() -> Context:
    """A topic is created with a value that its configuration cannot have."""
    return patched(create_topics, check_topic_configs=lambda configs: None)


@mutant("topics.default-partitions")
def partitions_have_no_default() -> Context:
    """A topic without a number of partitions is refused."""

    def create(original: Any, topic: Any, *more: Any) -> Any:
        if topic.num_partitions == create_topics.UNSET and not topic.assignments:
            topic.num_partitions = 0
        return original(topic, *more)

    return wrapped(create_topics, "create_topic", create)


@mutant("topics.delete")
def topics_are_not_deleted() -> Context:
    """DeleteTopics is answered without an error, and the topic stays."""
    return patched(delete_topics._Deletion, _delete=lambda self, topic_id: None)


@mutant("topics.delete-unknown")
def unknown_topics_are_deleted() -> Context:
    """DeleteTopics of an unknown name gets the error of an unknown id."""

    def by_name(original: Any, self: Any, name: str) -> Any:
        try:
            return original(self, name)
        except ApiError as error:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, str(error)) from None

    return wrapped(delete_topics._Deletion, "_by_name", by_name)


@mutant("topics.fewer-partitions")
def partitions_become_fewer() -> Context:
    """CreatePartitions with fewer partitions than there are gets no error."""

    def additional(original: Any, topic: Any, existing: int) -> int:
        return int(original(topic, existing)) if topic.count > existing else 0

    return wrapped(create_partitions, "_additional", additional)


# --- configurations


@mutant("configs.unknown-config")
def unknown_keys_are_taken() -> Context:
    """A topic may have a configuration that Kafka does not know."""
    return patched(config_changes, check_configs=lambda resource, configs: iter(()))


@mutant("configs.unknown-topic")
def missing_topics_are_configured() -> Context:
    """A topic that does not exist is configured."""
    return patched(config_changes, check_exists=lambda resource, context: None)


@mutant("configs.delete", waits=True)
def keys_are_not_unset() -> Context:
    """A key that is to be deleted keeps its value."""

    def worth(original: Any, resource: Any, changes: Any, before: Any) -> Any:
        found = original(resource, changes, before)
        return {name: value for name, value in found.items() if value is not None}

    return wrapped(config_changes, "_worth_a_record", worth)


@mutant("configs.append", waits=True)
def appending_replaces() -> Context:
    """A value that is appended replaces the list."""

    def listed(original: Any, resource: Any, config: Any, operation: Any, current: Any) -> Any:
        return original(resource, config, operation, "")

    return wrapped(config_changes, "_listed", listed)


@mutant("configs.append-to-number")
def numbers_are_lists() -> Context:
    """A value is appended to a number."""

    def incremented(original: Any, resource: Any, config: Any, current: Any) -> Any:
        return config.value if config.config_operation else original(resource, config, current)

    return wrapped(config_changes, "_incremented", incremented)
