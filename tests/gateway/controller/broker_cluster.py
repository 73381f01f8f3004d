"""A cluster with registered brokers, each of which can register, heartbeat, and send requests as
the leader of partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.controller.features import default_features
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.controller.cluster import Cluster, create, made

CLUSTER_ID = "a-cluster"
TOPIC = "orders"


class BrokerCluster(Cluster):
    """A cluster whose ``brokers`` are registered and unfenced, with ``directories`` each."""

    def __init__(
        self, brokers: Sequence[int] = (), *, directories: int = 1, **settings: Any
    ) -> None:
        super().__init__(cluster_id=CLUSTER_ID, **settings)
        self._lives = 0
        self.directories = directories
        for broker_id in brokers:
            self.come(broker_id)

    def broker(self, broker_id: int) -> RegisterBrokerRecord:
        return self.image.brokers[broker_id]

    def directory(self, broker_id: int, number: int = 0) -> Uuid:
        return Uuid(bytes([0xD0 + number, broker_id]) * 8)

    def partition(self, index: int = 0, topic: str = TOPIC) -> PartitionRecord:
        return self.image.partitions[self.image.topic_ids[topic]][index]

    def poll(self, after_ms: int = 0) -> list[str]:
        """Run the periodic tasks after so many milliseconds; the names of their operations."""
        self.now_ms += after_ms
        operations = self.controller.poll(self.now_ms)
        for operation in operations:
            self.commit(operation)
        self.check()
        return [operation.name for operation in operations]

    # --- brokers

    def register(self, broker_id: int, *, previous_epoch: int = -1) -> Any:
        """Register a new incarnation of the broker, which is fenced still."""
        self._lives += 1
        ranges = {
            "metadata.version": (7, 30),
            **{name: (0, level) for name, level in default_features(30).items()},
        }
        return self.ask(
            made(
                "BrokerRegistrationRequest",
                broker_id=broker_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=Uuid(self._lives.to_bytes(16, "big")),
                previous_broker_epoch=previous_epoch,
                log_dirs=[self.directory(broker_id, number) for number in range(self.directories)],
                features=[
                    {"name": name, "min_supported_version": low, "max_supported_version": high}
                    for name, (low, high) in ranges.items()
                ],
            )
        )

    def heartbeat(self, broker_id: int, **wants: Any) -> Any:
        return self.ask(
            made(
                "BrokerHeartbeatRequest",
                broker_id=broker_id,
                broker_epoch=self.broker(broker_id).broker_epoch,
                current_metadata_offset=len(self.log) - 1,
                **wants,
            )
        )

    def come(self, broker_id: int, *, previous_epoch: int = -1) -> None:
        """Register the broker and unfence it."""
        assert self.register(broker_id, previous_epoch=previous_epoch).error_code == 0
        answer = self.heartbeat(broker_id)
        assert (answer.error_code, answer.is_fenced) == (0, False)

    def fence(self, broker_id: int) -> None:
        """Fence the broker at its own request."""
        assert self.heartbeat(broker_id, want_fence=True).is_fenced

    # --- partitions

    def create(self, *assignments: Sequence[int], topic: str = TOPIC, **configs: str) -> None:
        """Create a topic with these replicas."""
        by_hand = [
            {"partition_index": index, "broker_ids": list(ids)}
            for index, ids in enumerate(assignments)
        ]
        named = [
            {"name": name.replace("_", "."), "value": value} for name, value in configs.items()
        ]
        answer = self.ask(create({"name": topic, "assignments": by_hand, "configs": named}))
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message

    def alter(
        self,
        isr: Sequence[int],
        *,
        index: int = 0,
        topic: str = TOPIC,
        version: int = 3,
        **other: Any,
    ) -> Any:
        """The result of AlterPartition from the leader; ``other`` replaces its fields."""
        now = self.partition(index, topic)
        leader = other.pop("broker_id", now.leader)
        epoch = other.pop(
            "broker_epoch",
            self.image.brokers[leader].broker_epoch if leader in self.image.brokers else -1,
        )
        epochs = {one: broker.broker_epoch for one, broker in self.image.brokers.items()}
        asked = {
            "partition_index": index,
            "leader_epoch": now.leader_epoch,
            "partition_epoch": now.partition_epoch,
            "leader_recovery_state": 0,
            **(
                {
                    "new_isr_with_epochs": [
                        {"broker_id": one, "broker_epoch": epochs.get(one, -1)} for one in isr
                    ]
                }
                if version >= 3
                else {"new_isr": list(isr)}
            ),
            **other,
        }
        topics = [{"topic_id": self.image.topic_ids[topic], "partitions": [asked]}]
        request = made("AlterPartitionRequest", broker_id=leader, broker_epoch=epoch, topics=topics)
        answer = self.ask(request, version)
        return answer if answer.error_code else answer.topics[0].partitions[0]

    def reassign(
        self, replicas: Sequence[int] | None, *, index: int = 0, topic: str = TOPIC, **more: Any
    ) -> ErrorCode:
        """The error of a reassignment; None cancels it."""
        partitions = [
            {"partition_index": index, "replicas": None if replicas is None else list(replicas)}
        ]
        request = made(
            "AlterPartitionReassignmentsRequest",
            topics=[{"name": topic, "partitions": partitions}],
            **more,
        )
        (result,) = self.ask(request).responses[0].partitions
        return ErrorCode(result.error_code)
