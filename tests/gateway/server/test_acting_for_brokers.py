"""The acting controller and brokers: broker epochs are offsets of the log, heartbeats write no
records, and silent brokers are fenced.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.controller.features import default_features
from gateway.server.controller import acting_controller
from gateway.server.scheduling.running_clock import RunningClock
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.records import decode_metadata_record
from kwire.uuid import Uuid
from tests.gateway.controller.cluster import made, offered
from tests.gateway.server.controller.acting_stage import ASKER, Stage, Waiting, acting
from tests.gateway.server.harness import run
from tests.waiting import until_async

pytestmark = pytest.mark.usefixtures("one_slice_for_each_decision")

BROKER = 7


def ask(stage: Stage, request: Any, version: int) -> Waiting:
    pending = Waiting()
    stage.acting.submit(request, version, ASKER, pending)
    return pending


def register(stage: Stage) -> Waiting:
    ranges = {
        "metadata.version": (7, 33),
        **{name: (0, level) for name, level in default_features(33).items()},
    }
    features = offered(ranges)
    fields = {
        "cluster_id": "",
        "incarnation_id": Uuid(b"i" * 16),
        "log_dirs": [Uuid(b"d" * 16)],
        "features": features,
    }
    return ask(stage, made("BrokerRegistrationRequest", broker_id=BROKER, **fields), 4)


def beat(stage: Stage, epoch: int) -> Waiting:
    return ask(
        stage,
        made(
            "BrokerHeartbeatRequest",
            broker_id=BROKER,
            broker_epoch=epoch,
            current_metadata_offset=1 << 40,
        ),
        2,
    )


def commit(stage: Stage) -> None:
    """:meth:`Stage.commit`, and move the end of the quorum's log along."""
    stage.commit()
    stage.driver.raft.log.end_offset = stage._end


def offset_of_registration(stage: Stage) -> int:
    """The offset that the record gets, if the core writes no record of its own before it."""
    offset = stage._end
    for event in stage.driver.proposed:
        for value in (value for batch in event.batches for value in batch):
            if isinstance(decode_metadata_record(value)[2], RegisterBrokerRecord):
                return offset
            offset += 1
    raise AssertionError("nothing was proposed")


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.driver.raft.log = type("Log", (), {"end_offset": 0})  # type: ignore[assignment]
    made.lead()
    commit(made)
    return made


def test_broker_epoch_is_the_offset_of_its_registration(stage: Stage) -> None:
    pending = register(stage)
    expected = offset_of_registration(stage)
    commit(stage)
    assert pending.answer.broker_epoch == expected == stage._end - 1


def test_broker_epoch_counts_records_that_wait_to_be_appended(stage: Stage) -> None:
    stage.ask("a")
    pending = register(stage)
    expected = offset_of_registration(stage)
    commit(stage)
    assert pending.answer.broker_epoch == expected > stage._end - 4


def test_broker_epoch_counts_control_records_of_the_quorum(stage: Stage) -> None:
    stage._end += 3  # a change of voters
    stage.driver.raft.log.end_offset = stage._end
    pending = register(stage)
    expected = offset_of_registration(stage)
    commit(stage)
    assert pending.answer.broker_epoch == expected


def test_heartbeat_waits_for_earlier_records_and_writes_none(stage: Stage) -> None:
    stage.driver.raft.leads_until = 0.0  # one of several
    epoch = register(stage)
    commit(stage)
    serves = beat(stage, epoch.answer.broker_epoch)
    assert len(stage.driver.proposed) == 1 and not serves.done
    waits = beat(stage, epoch.answer.broker_epoch)
    assert not waits.done
    commit(stage)
    assert (serves.answer.is_fenced, waits.answer.is_fenced) == (False, False)
    at_once = beat(stage, epoch.answer.broker_epoch)
    assert at_once.answer.is_fenced is False and stage.driver.proposed == []


def test_broker_without_heartbeats_is_fenced(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(acting_controller, "_CHECK_S", 0.001)
    now_ms = 0
    stage.acting._clock = RunningClock(lambda: now_ms * 1_000_000)
    stage.acting.on_resigned(1)
    stage.lead(2)  # with this clock
    commit(stage)
    registered = register(stage)
    commit(stage)
    beat(stage, registered.answer.broker_epoch)
    commit(stage)

    def has_read_the_clock() -> bool:
        return stage.acting._clock._seen_ns == now_ms * 1_000_000

    async def main() -> None:
        nonlocal now_ms
        async with acting(stage):
            for _ in range(9):
                now_ms += 1_000
                await until_async(has_read_the_clock)
            assert stage.acting._clock.read() == now_ms
            assert stage.driver.proposed == []
            now_ms += 3_600_000  # no broker could be heard in that hour: this process did not run
            await until_async(lambda: stage.acting._clock.read() == 10_000)
            now_ms += 1_000
            await until_async(lambda: len(stage.driver.proposed) == 1)

    run(main)
    [[value]] = stage.driver.proposed[0].batches
    change: Any = decode_metadata_record(value)[2]
    assert (change.broker_id, change.fenced) == (BROKER, 1)
    assert "broker session expired" in capsys.readouterr().err
