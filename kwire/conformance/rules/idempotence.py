"""Rules of idempotent producers (KIP-98, KIP-360)."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.fetch_fixtures import end_of
from kwire.conformance.fixtures import own_partition, produce, records, refused_batch
from kwire.conformance.probe import Probe
from kwire.conformance.rule import BROKER, Changes, Family
from kwire.messages.init_producer_id_request import InitProducerIdRequest
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import encode_batch

_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.CREATE_TOPICS,
    ApiKey.METADATA,
    ApiKey.LIST_OFFSETS,
)

FAMILY: Final = Family(
    "idempotence",
    "Idempotent producers",
    roles=BROKER,
    apis=_APIS,
    changes=Changes.OWN,
    since="0.11",
)


def _init(probe: Probe) -> Any:
    """Return the answer to InitProducerId, once the broker has a block of producer ids."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

    def ask() -> Any:
        answer = probe.call(request)
        loading = answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return None if loading else answer

    answer = probe.until(ask, "a producer id")
    probe.expect_error(answer.error_code, ErrorCode.NONE, where="InitProducerId")
    return answer


def _producer(probe: Probe) -> int:
    producer_id: int = _init(probe).producer_id
    return producer_id


def _sequenced(producer_id: int, sequence: int, epoch: int = 0) -> bytes:
    return encode_batch(
        records(1, f"number {sequence}"), producer_id=producer_id, producer_epoch=epoch,
        base_sequence=sequence,
    )  # fmt: skip


@FAMILY.rule("producer-ids-differ", source="KIP-98", section="InitProducerId")
def producer_ids_differ(probe: Probe) -> None:
    """Every InitProducerId without a transactional id gives another producer id, of epoch 0."""
    own_partition(probe)
    answers = [_init(probe) for _ in range(3)]
    ids = [answer.producer_id for answer in answers]
    probe.expect(len(set(ids)) == 3 and min(ids) >= 0, f"producer ids are {ids}")
    probe.expect({answer.producer_epoch for answer in answers} == {0}, "an epoch is not 0")


@FAMILY.rule("duplicate", source="KIP-98", section="Idempotent Producer Guarantees")
def duplicate(probe: Probe) -> None:
    """A batch that is sent twice is in the log once; both answers have its offset."""
    where, producer_id = own_partition(probe), _producer(probe)
    batch = _sequenced(producer_id, 0)
    found = [produce(probe, where, batch) for _ in range(2)]
    probe.expect(found == [1, 1], f"a batch that was sent twice is at {found}")
    end = end_of(probe, where)
    probe.expect(end == 2, f"behind 2 records the log ends at {end}")


@FAMILY.rule("sequence-gap", source="KIP-98", section="OUT_OF_ORDER_SEQUENCE_NUMBER")
def sequence_gap(probe: Probe) -> None:
    """A batch that leaves out a sequence number has error OUT_OF_ORDER_SEQUENCE_NUMBER."""
    where, producer_id = own_partition(probe), _producer(probe)
    produce(probe, where, _sequenced(producer_id, 0))
    refused_batch(
        probe, _sequenced(producer_id, 2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, where=where
    )


@FAMILY.rule("old-producer-epoch", source="KIP-98", section="INVALID_PRODUCER_EPOCH")
def old_producer_epoch(probe: Probe) -> None:
    """A batch of a producer epoch that is over has error INVALID_PRODUCER_EPOCH."""
    where, producer_id = own_partition(probe), _producer(probe)
    produce(probe, where, _sequenced(producer_id, 0, epoch=1))
    refused_batch(
        probe, _sequenced(producer_id, 1, epoch=0), ErrorCode.INVALID_PRODUCER_EPOCH, where=where
    )


@FAMILY.rule("new-epoch-begins-at-zero", source="KIP-360", section="sequence numbers", since="2.5")
def new_epoch_begins_at_zero(probe: Probe) -> None:
    """A new producer epoch begins with sequence number 0."""
    where, producer_id = own_partition(probe), _producer(probe)
    produce(probe, where, _sequenced(producer_id, 0))
    refused_batch(
        probe, _sequenced(producer_id, 1, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        where=where,
    )  # fmt: skip
    produce(probe, where, _sequenced(producer_id, 0, epoch=1))
