"""Rules of producers: errors that pass, lost answers, sequences, requests in flight."""

from __future__ import annotations

import functools
from typing import Final

from kwire.conformance.client.faults import EVER, Answer, close_before, later
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.rule import CLIENT, Family, Rule
from kwire.protocol import ApiKey, ErrorCode

FAMILY: Final = Family("client-produce", "Producers")

_PRODUCE: Final = ApiKey.PRODUCE
_APIS: Final = (_PRODUCE,)
_IDEMPOTENT: Final = (_PRODUCE, ApiKey.INIT_PRODUCER_ID)
#: Requests without an answer that a broker can take of an idempotent producer (KIP-98).
_IN_FLIGHT_MAX: Final = 5


def retried(error: ErrorCode, probe: ClientProbe) -> None:
    """Refuse one Produce request with an error that passes."""
    probe.prepare()
    fault = probe.fault(f"error {error.name}", _PRODUCE, error=error)
    probe.start()
    seen = probe.happened(fault)
    probe.request_after(seen, _PRODUCE)
    probe.writes_all()


for _error in (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
):
    FAMILY.add(
        Rule(
            id=f"client-produce.{_error.name.lower().replace('_', '-')}",
            says=f"A producer that gets {_error.name} writes the records again.",
            check=functools.partial(retried, _error),
            source="Errors",
            section=f"{_error.name}: RetriableException",
            roles=CLIENT,
            apis=_APIS,
        )
    )


@FAMILY.rule(
    "leader-moves", source="Errors", section="NOT_LEADER_OR_FOLLOWER: InvalidMetadataException",
    roles=CLIENT, apis=_APIS,
)  # fmt: skip
def leader_moves(probe: ClientProbe) -> None:
    """A producer that gets NOT_LEADER_OR_FOLLOWER writes to the new leader."""
    probe.prepare(nodes=2)

    def act(answer: Answer) -> None:
        probe.state.move_leader(2)

    fault = probe.fault(
        "the leader has moved", _PRODUCE, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, act=act
    )
    probe.start()
    seen = probe.happened(fault)
    probe.request_after(seen, _PRODUCE, "a Produce request to the new leader", broker=2)
    probe.writes_all()


@FAMILY.rule("lost-answer", source="KIP-98", section="Idempotent producer", since="0.11",
    roles=CLIENT, apis=_IDEMPOTENT)  # fmt: skip
def lost_answer(probe: ClientProbe) -> None:
    """An idempotent producer whose answer is lost writes the same batch again with the same
    sequence, so that the log has it once.
    """
    probe.prepare()
    fault = probe.fault("the answer is lost", _PRODUCE, act=close_before)
    probe.start()
    seen = probe.happened(fault)
    probe.request_after(seen, _PRODUCE)
    probe.writes_all()


@FAMILY.rule("duplicate-sequence", source="KIP-98", section="DuplicateSequenceNumber", since="0.11",
    roles=CLIENT, apis=_IDEMPOTENT)  # fmt: skip
def duplicate_sequence(probe: ClientProbe) -> None:
    """An idempotent producer takes records as written for which it gets
    DUPLICATE_SEQUENCE_NUMBER.
    """
    probe.prepare()

    def duplicate(answer: Answer) -> None:
        for topic in answer.body.responses:
            for partition in topic.partition_responses:
                partition.error_code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
                partition.base_offset = -1

    fault = probe.fault("the batch is in the log already", _PRODUCE, act=duplicate)
    probe.start()
    probe.happened(fault)
    probe.writes_all()
    probe.expect(not probe.running.status, f"the program ended with an error{probe.said()}")


@FAMILY.rule("five-in-flight", source="KIP-98", section="max.in.flight.requests.per.connection",
    since="1.0", roles=CLIENT, apis=_IDEMPOTENT)  # fmt: skip
def five_in_flight(probe: ClientProbe) -> None:
    """An idempotent producer has five Produce requests without an answer at most on a
    connection.
    """
    probe.prepare()
    probe.fault("300 ms later", _PRODUCE, act=later(0.3), times=EVER)
    probe.start()
    probe.writes_all()
    most = max(seen.in_flight for seen in probe.traffic.all(_PRODUCE))
    probe.expect(most <= _IN_FLIGHT_MAX, f"{most} Produce requests were in flight")


@FAMILY.rule("order", source="KIP-98", section="Sequence numbers", since="0.11",
    roles=CLIENT, apis=_IDEMPOTENT)  # fmt: skip
def order(probe: ClientProbe) -> None:
    """An idempotent producer keeps the order of its records when the first of several batches is
    refused.
    """
    probe.prepare()
    probe.fault("100 ms later", _PRODUCE, act=later(0.1), times=3)
    fault = probe.fault("refused", _PRODUCE, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
    probe.start()
    probe.happened(fault)
    probe.writes_all()
