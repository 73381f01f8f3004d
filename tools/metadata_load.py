"""Puts a light, steady load on a metadata quorum: creates topics, sets configs and deletes topics
while nodes fail.

It continues through refusals and timeouts, and counts them. It stops by itself after a number of
requests or some time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Self

from kwire import Message
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tools.admin import Admin, AdminError

_TOPIC, _SET = 2, 0
#: So many topics are created together, and deleted so many rounds later: there are never many.
_TOGETHER, _ROUNDS = 4, 3
#: A config with some weight, so that segments and snapshots fill: about 400 bytes.
_CONFIG = "leader.replication.throttled.replicas"
_VALUE = ",".join(f"{partition}:101" for partition in range(64))
#: One request may take so long, seconds: a node that hangs must not stop the load.
_REQUEST_S = 3
_TOPIC_ALREADY_EXISTS, _UNKNOWN_TOPIC = 36, 3


class Load:
    """``with Load(cluster.controllers.split(","))``: a thread that sends requests to whichever
    controller is active.

    ``per_second`` at most, ``requests_max`` and ``seconds_max`` in all. ``done`` and ``failed``
    count requests.
    """

    def __init__(
        self,
        controllers: Sequence[str],
        *,
        per_second: float = 20,
        requests_max: int = 20_000,
        seconds_max: float = 600,
    ) -> None:
        self.done = 0
        self.failed = 0
        self._controllers = controllers
        self._pause_s = 1 / per_second
        self._requests_max = requests_max
        self._seconds_max = seconds_max
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="metadata load", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more requests, and raise the exception that ended the load, if there was one."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def wait_for(self, more: int, timeout_s: float = 90) -> None:
        """Return when ``more`` requests than now were done. Raises AdminError."""
        target, deadline = self.done + more, time.monotonic() + timeout_s
        while self.done < target:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise AdminError(
                    f"the load did {self.done} requests, {target} were waited for, {self.failed}"
                    " failed"
                )
            time.sleep(0.02)

    def _run(self) -> None:
        deadline = time.monotonic() + self._seconds_max
        try:
            with Admin(self._controllers, timeout_s=_REQUEST_S) as admin:
                for number in range(self._requests_max):
                    if self._stop.wait(self._pause_s) or time.monotonic() > deadline:
                        return
                    self._send(admin, number)
        except BaseException as error:
            self._error = error

    def _send(self, admin: Admin, number: int) -> None:
        try:
            admin.send(request(number), accept={_TOPIC_ALREADY_EXISTS, _UNKNOWN_TOPIC})
            self.done += 1
        except AdminError:
            self.failed += 1


def request(number: int) -> Message:
    """Return the request with this number: of three, one creates topics, one sets a config on them,
    one deletes older ones.
    """
    round_number, step = divmod(number, 3)
    if step == 0:
        new = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in _names(round_number)
        ]
        return CreateTopicsRequest(topics=new, timeout_ms=1000)
    if step == 1:
        config = AlterableConfig(name=_CONFIG, config_operation=_SET, value=_VALUE)
        resources = [
            AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[config])
            for name in _names(round_number)
        ]
        return IncrementalAlterConfigsRequest(resources=resources)
    gone = [DeleteTopicState(name=name) for name in _names(round_number - _ROUNDS)]
    return DeleteTopicsRequest(topics=gone, timeout_ms=1000)


def _names(round_number: int) -> list[str]:
    return [f"load-{round_number}-{number}" for number in range(_TOGETHER)]
