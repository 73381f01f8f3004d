"""Clients of the cluster that is rescued: a producer that never stops, a reader of everything, and
an administrator who writes down what must stay. All are librdkafka's, not kwire's.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tools.kafka_security import ADMIN, ADMIN_PASSWORD, OUTSIDER, OUTSIDER_PASSWORD
from tools.process import PATIENCE_S, ProcessError

TOPIC: Final = "orders"
PARTITIONS: Final = 4
#: Partitions of every topic have a replica on both brokers.
_REPLICAS: Final = 2
#: Some waits are for a virtual machine's start and for what follows it.
_PATIENCE_S: Final = 3 * PATIENCE_S
#: One try of a request; a broker without a controller answers none.
_TRY_S: Final = 5.0
_PAUSE_S: Final = 0.1
#: The user with a permission, and the one without.
_USERS: Final = ((ADMIN, ADMIN_PASSWORD), (OUTSIDER, OUTSIDER_PASSWORD))
_RETENTION: Final = {"retention.ms": "86400000"}


@dataclass(frozen=True)
class State:
    """The metadata that a rescue must not change, as brokers tell clients."""

    topic_ids: Mapping[str, str]
    configs: Mapping[str, str]
    acls: frozenset[str]
    users: frozenset[str]


def wait(condition: Callable[[], Any], what: str) -> Any:
    """Return the value of ``condition`` once it is true; an error counts as not yet. Raises
    ProcessError.
    """
    deadline, last = time.monotonic() + _PATIENCE_S, None
    while time.monotonic() < deadline:
        try:
            if last := condition():
                return last
        except (KafkaException, OSError, ValueError) as error:
            last = error
        time.sleep(_PAUSE_S)
    raise ProcessError(f"{what}: not within {_PATIENCE_S:g} s, last: {last!r}")


class Administrator:
    """Makes the cluster's topics, users and permissions, and describes them."""

    def __init__(self, bootstrap: str, logins: str) -> None:
        self._bootstrap, self._logins = bootstrap, logins
        self._client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def set_up(self) -> None:
        """Make what a rescue must keep. Raises KafkaException."""
        self.make_topic(TOPIC)
        client = self._client
        resource = ConfigResource(
            ConfigResource.Type.TOPIC,
            TOPIC,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in _RETENTION.items()
            ],
        )
        _all(client.incremental_alter_configs([resource]))
        _all(client.create_acls([_may_read(TOPIC)]))
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        _all(
            client.alter_user_scram_credentials(
                [
                    UserScramCredentialUpsertion(name, scram, password=word.encode())
                    for name, word in _USERS
                ]
            )
        )
        wait(self.can_login, "a SCRAM login works")

    def make_topic(self, name: str, *, is_new: bool = False) -> None:
        """Create a topic, by as many tries as it takes, and return when all replicas of it are in
        sync. Raises ProcessError, with ``is_new`` also where the topic is there.
        """
        if is_new and name in self._client.list_topics(timeout=_TRY_S).topics:
            raise ProcessError(f"topic {name} is there")
        wait(lambda: self._created(name), f"topic {name} is made")
        wait(lambda: self.is_in_sync(name), f"topic {name} is in sync")

    def _created(self, name: str) -> bool:
        made = self._client.create_topics(
            [NewTopic(name, PARTITIONS, _REPLICAS)],
            operation_timeout=_TRY_S,
            request_timeout=_TRY_S,
        )
        try:
            _all(made)
        except KafkaException as error:
            # A try that got no answer may have been carried out.
            return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    def is_in_sync(self, name: str) -> bool:
        """True if all partitions have a leader, and all replicas are in the ISR."""
        found = self._described([name])[name]
        return len(found.partitions) == PARTITIONS and all(
            one.leader is not None and len(one.isr) == len(one.replicas) == _REPLICAS
            for one in found.partitions
        )

    def brokers(self) -> set[int]:
        """Brokers that are registered and not fenced. Raises KafkaException."""
        return {
            one.id for one in _result(self._client.describe_cluster(request_timeout=_TRY_S)).nodes
        }

    def state(self) -> State:
        """Describe what must stay. Raises KafkaException."""
        client = self._client
        acls = _result(client.describe_acls(_any_acl(), request_timeout=_TRY_S))
        resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
        [configs] = _all(client.describe_configs([resource], request_timeout=_TRY_S))
        users = _result(client.describe_user_scram_credentials(request_timeout=_TRY_S))
        return State(
            {TOPIC: str(self._described([TOPIC])[TOPIC].topic_id)},
            {name: configs[name].value for name in _RETENTION},
            frozenset(map(repr, acls)),
            frozenset(users),
        )

    def can_login(self) -> bool:
        """True if the user with a permission sees the topic by a SCRAM login, and the one without
        does not. Raises KafkaException.
        """
        seen = [
            self._login(*user).list_topics(TOPIC, timeout=_TRY_S).topics[TOPIC].error
            for user in _USERS
        ]
        return seen[0] is None and seen[1].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    def _login(self, name: str, password: str) -> Any:
        return AdminClient(
            {
                "bootstrap.servers": self._logins,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": name,
                "sasl.password": password,
                "log_level": 0,
            }
        )

    def _described(self, names: list[str]) -> dict[str, Any]:
        found = self._client.describe_topics(TopicCollection(names), request_timeout=_TRY_S)
        return {name: one.result() for name, one in found.items()}


class Traffic:
    """Produces numbered records with acks=all from :meth:`start` to :meth:`stop`, in a thread of
    its own; it is started when it is made.
    """

    def __init__(self, bootstrap: str, per_second: int = 50) -> None:
        self._bootstrap, self._pause_s = bootstrap, 1 / per_second
        #: Values that brokers acknowledged.
        self.acknowledged: set[bytes] = set()
        self._failed: list[str] = []
        self._ends = threading.Event()
        self._producer = _producer(bootstrap)
        self._numbers = itertools.count()
        self.start()

    def start(self) -> None:
        """Begin to produce, behind the last number."""
        self._ends.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(self._pause_s):
            value = str(next(self._numbers)).encode()
            self._producer.produce(TOPIC, value, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.acknowledged.add(message.value())
        else:
            self._failed.append(str(error))

    def stop(self) -> None:
        """Produce no more, and wait for all acknowledgements. Raises ProcessError if records
        failed.
        """
        self._ends.set()
        self._thread.join()
        left = self._producer.flush(PATIENCE_S)
        if left or self._failed:
            raise ProcessError(f"{left} records have no answer, and failed: {self._failed[:3]}")

    def lost(self) -> set[bytes]:
        """Read the topic from its start, and return the acknowledged values that are not in it.
        Raises KafkaException.
        """
        return self.acknowledged - _read_all(self._bootstrap)


def produce_one(bootstrap: str, topic: str) -> None:
    """Produce one record to every partition of a topic, acknowledged by all replicas. Raises
    ProcessError.
    """
    producer = _producer(bootstrap)
    for partition in range(PARTITIONS):
        producer.produce(topic, b"first", partition=partition)
    if left := producer.flush(PATIENCE_S):
        raise ProcessError(f"{left} records to {topic} were not acknowledged")


def _producer(bootstrap: str) -> Any:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "delivery.timeout.ms": 600_000,
            "linger.ms": 0,
            "log_level": 0,
        }
    )


def _read_all(bootstrap: str) -> set[bytes]:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        places = [At(TOPIC, number, 0) for number in range(PARTITIONS)]
        left = sum(reader.get_watermark_offsets(one, timeout=PATIENCE_S)[1] for one in places)
        reader.assign(places)
        seen: set[bytes] = set()
        while left > 0:
            message = reader.poll(PATIENCE_S)
            if message is None or message.error():
                raise ProcessError(f"{left} records of {TOPIC} cannot be read")
            seen.add(message.value() or b"")
            left -= 1
        return seen
    finally:
        reader.close()


def _result(future: Any) -> Any:
    return future.result(2 * _TRY_S)


def _all(futures: Mapping[Any, Future[Any]]) -> list[Any]:
    return [_result(one) for one in futures.values()]


def _may_read(topic: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{ADMIN}",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )


def _any_acl() -> AclBindingFilter:
    anything: Any = None
    return AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        anything,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
