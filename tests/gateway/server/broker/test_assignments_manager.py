"""A broker tells the controller in which log directories its replicas are."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from gateway.controller.nodes import UNASSIGNED
from gateway.log.files.disk import Disk
from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.partition.log_directories import LogDirectory
from gateway.server.broker.assignments_manager import AssignmentsManager
from kwire.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import ErrorCode
from kwire.protocol.metadata_version import LATEST_PRODUCTION_METADATA_VERSION
from kwire.uuid import Uuid
from tests.gateway.server.broker.test_data_log_cleaner import Reports
from tests.waiting import until_async

TOPIC, A, B = (Uuid(bytes([number]) * 16) for number in (1, 10, 11))


class Controller:
    """Takes assignments; the first requests are answered with ``errors``."""

    def __init__(self, count: int, *errors: int | None, level: int | None = None) -> None:
        self.records = {
            index: PartitionRecord(
                topic_id=TOPIC, partition_id=index, replicas=[7, 1], directories=[B, UNASSIGNED]
            )
            for index in range(count)
        }
        self.image = SimpleNamespace(
            partitions={TOPIC: self.records},
            metadata_version=LATEST_PRODUCTION_METADATA_VERSION if level is None else level,
        )
        self.errors = list(errors)
        self.sent: list[dict[Uuid, int]] = []

    async def send(self, request: Any, version: int) -> Any:
        assert (request.broker_id, request.broker_epoch, version) == (1, 5, 0)
        self.sent.append(
            {
                one.id: sum(len(topic.partitions) for topic in one.topics)
                for one in request.directories
            }
        )
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        if error is None:
            return None
        if not error:
            for one in request.directories:
                for partition in one.topics[0].partitions:
                    self.records[partition.partition_index].directories = [B, one.id]
        return AssignReplicasToDirsResponse(error_code=error)


def assigned(controller: Controller, directories: list[LogDirectory], reports: Any) -> None:
    """Assign each partition to one of the directories, until all are."""

    async def main() -> None:
        lifecycle: Any = SimpleNamespace(broker_id=1, epoch=5)
        requests: Any = controller
        manager = AssignmentsManager(lifecycle, requests, requests, reports)
        async with trio.open_nursery() as nursery:
            for index, record in controller.records.items():
                manager.assign(record, directories[index % len(directories)])
            nursery.start_soon(manager.run)
            await until_async(partial(_is_done, manager), "all is told")
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(rate=1000))


def _is_done(manager: AssignmentsManager) -> bool:
    return not manager._due()


def directory(root: Path, id: Uuid) -> LogDirectory:
    return LogDirectory(root, id, Checkpoints(root, Disk(fsync=False), []))


def test_assignments_go_together_and_again_until_the_image_has_them(tmp_path: Path) -> None:
    controller, reports = Controller(5, None, ErrorCode.STALE_BROKER_EPOCH), Reports()
    assigned(controller, [directory(tmp_path, A), directory(tmp_path, B)], reports)
    assert controller.sent == [{A: 3, B: 2}] * 3
    assert reports.events == ["replicas not assigned"]
    assert [one.directories[1] for one in controller.records.values()] == [A, B, A, B, A]


def test_request_has_two_thousand_assignments_at_most(tmp_path: Path) -> None:
    controller = Controller(2500)
    assigned(controller, [directory(tmp_path, A)], Reports())
    assert controller.sent == [{A: 2000}, {A: 500}]


def test_assignments_of_a_request_are_looked_at_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    is_due = AssignmentsManager._is_due

    def counted(manager: AssignmentsManager, image: Any, key: Any, one: LogDirectory) -> bool:
        looks.append(key[1])
        return is_due(manager, image, key, one)

    monkeypatch.setattr(AssignmentsManager, "_is_due", counted)
    controller: Any = Controller(9000)
    manager = AssignmentsManager(SimpleNamespace(broker_id=1), controller, controller, Reports())  # type: ignore[arg-type]
    for record in controller.records.values():
        manager.assign(record, directory(tmp_path, A))
    assert len(manager._due()) == len(looks) == 2000


def test_nothing_is_told_at_a_level_without_directories(tmp_path: Path) -> None:
    controller = Controller(1, level=7)
    assigned(controller, [directory(tmp_path, A)], Reports())
    assert controller.sent == []
