"""A small idempotent producer, which writes the same records at each start."""

from __future__ import annotations

from typing import Any, Final

from kwire.messages.init_producer_id_request import InitProducerIdRequest
from kwire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import Record, encode_batch
from tests.kwire.conformance.client.small.consumer import Consumer
from tests.kwire.conformance.client.small.life import Ended, Life
from tests.kwire.conformance.client.small.node import Lost, Node

_BATCHES: Final = 8
_RECORDS: Final = 3
#: The pause behind each batch.
_LINGER_S: Final = 0.03


class Producer(Consumer):
    """Writes batches to partition 0, one after another."""

    def __init__(self, life: Life, bootstrap: str, topic: str, *, has_sasl: bool = False) -> None:
        super().__init__(life, bootstrap, topic, has_sasl=has_sasl)
        self.producer, self.producer_epoch = -1, -1
        self.number = self.sequence = 0

    def step(self) -> None:
        """Get a producer id, or write the next batch."""
        node = self.node(self.addresses[self.leader])
        if self.producer < 0:
            self.begin(node)
        elif self.life.has("seven-in-flight"):
            self.write_all(node)
        else:
            self.write(node)
        if self.number == _BATCHES:
            raise Ended(0)

    def begin(self, node: Node) -> None:
        """Ask for a producer id."""
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = node.call(ApiKey.INIT_PRODUCER_ID, asked)
        if answer.error_code:
            raise Lost
        self.producer, self.producer_epoch = answer.producer_id, answer.producer_epoch

    def batch(self) -> ProduceRequest:
        """The request with the batch at ``number``."""
        records = [
            Record(offset=at, timestamp=1, value=f"record {self.number}-{at}".encode())
            for at in range(_RECORDS)
        ]
        data = encode_batch(
            records, producer_id=self.producer, producer_epoch=self.producer_epoch,
            base_sequence=self.sequence,
        )  # fmt: skip
        partition = PartitionProduceData(index=0, records=data)
        topic = TopicProduceData(name=self.topic, partition_data=[partition])
        return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])

    def write(self, node: Node) -> None:
        """Write one batch, and go on to the next if the log has it."""
        try:
            answer = node.call(ApiKey.PRODUCE, self.batch())
        except Lost:
            if self.life.has("new-sequence"):
                self.sequence += _RECORDS
            raise
        self.taken(answer.responses[0].partition_responses[0])

    def taken(self, partition: Any) -> None:
        """Act on the answer to a batch."""
        error = partition.error_code
        if error and (
            error != ErrorCode.DUPLICATE_SEQUENCE_NUMBER or self.life.has("duplicate-is-error")
        ):
            self.life.dies_of("no-retry", "duplicate-is-error")
            if not self.life.has("drops-refused"):
                self.leader = self.leader if self.life.has("stays") else -1
                self.life.wait(0.02)
                return
        else:
            self.sequence += _RECORDS
        self.number += 1
        self.life.wait(_LINGER_S)

    def write_all(self, node: Node) -> None:
        """Write every batch without waiting for an answer, and take no batch again."""
        version, sent = node.version(ApiKey.PRODUCE), []
        for _ in range(_BATCHES):
            sent.append(node.send(ApiKey.PRODUCE, version, self.batch()))
            self.number += 1
            self.sequence += _RECORDS
        for number in sent:
            node.decoded(ApiKey.PRODUCE, version, node.receive(number))
