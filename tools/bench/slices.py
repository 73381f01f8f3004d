"""Measures work in slices: the active controller's decisions and the group coordinator's requests.

The cost of an element must not grow with the number of elements, so the peer of a request is the
same request with a tenth of them, in the same run. The longest step between two interruptions is
noted beside it.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

from gateway.controller.controller import Controller
from gateway.controller.settings import ControllerSettings
from gateway.groups import EventTime, GroupCoordinator, Settings
from gateway.groups.events import (
    DeleteGroups,
    DescribeGroups,
    Event,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from kwire.cluster import Image
from kwire.message import Message
from kwire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_FEW, _MANY = 400, 4_000
#: An element of a request ten times as long may cost at most twice as much.
_BAR: Final = 0.5
_ROUNDS = 3
_MOMENT: Final = EventTime(100.0, 1_700_000_000_000)
_LIMITS: Final = Settings(groups_max=100_000, bytes_max_per_group=2**30)
_TOPIC = 2

#: Work in slices, made anew for each round.
Work = Callable[[], Generator[Any, None, Any]]


def run() -> Iterator[dict[str, Any]]:
    """Yield the rows."""
    for name, make in _works().items():
        few, many = _cost(make(_FEW), _FEW), _cost(make(_MANY), _MANY)
        yield {
            "what": f"{name}, {_MANY} elements",
            "unit": "µs/element",
            "kwire": many[0],
            "peer": f"kwire, {_FEW} elements",
            "peer_value": few[0],
            "ratio": few[0] / many[0],
            "bar": _BAR,
            "notes": f"longest step {many[1]:.1f} ms",
        }


def _works() -> dict[str, Callable[[int], Work]]:
    return {
        "CreateTopics": lambda count: _decided(0, _create(count), 7),
        "CreatePartitions": lambda count: _decided(count, _more_partitions(count), 3),
        "IncrementalAlterConfigs": lambda count: _decided(count, _configured(count), 1),
        "DeleteTopics": lambda count: _decided(count, _delete(count), 6),
        "become active": _active,
        "OffsetCommit": lambda count: _handled(0, _commit("g", count)),
        "OffsetFetch": lambda count: _handled(count, OffsetFetch((("g", None),))),
        "DescribeGroups": lambda count: _handled(count, DescribeGroups(_names(count))),
        "DeleteGroups": lambda count: _handled(count, DeleteGroups(_names(count))),
    }


def _cost(work: Work, count: int) -> tuple[float, float]:
    """Return the µs of an element and the longest step in ms, of the fastest round."""
    return min(_round(work(), count) for _ in range(_ROUNDS))


def _round(slices: Generator[Any, None, Any], count: int) -> tuple[float, float]:
    gc.collect()
    gc.freeze()
    began, longest, steps = time.thread_time(), 0.0, True
    while steps:
        before = time.thread_time()
        try:
            next(slices)
        except StopIteration:
            steps = False
        longest = max(longest, time.thread_time() - before)
    took = time.thread_time() - began
    gc.unfreeze()
    return took * 1e6 / count, longest * 1e3


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"name-{number}" for number in range(count))


# The controller.


def _controller(topics: int) -> Controller:
    controller = Controller(ControllerSettings(1, (1,)), random=random.Random(1).randbytes)
    controller.activate(Image(), 0)
    if topics:
        controller.handle(_create(topics), 7, _allow_all, 0)
    return controller


def _allow_all(operation: str, resource_type: str, name: str) -> bool:
    return True


def _decided(topics: int, request: Message, version: int) -> Work:
    return lambda: _controller(topics).decide(request, version, _allow_all, 0)


def _active(topics: int) -> Work:
    image = _controller(topics).image
    assert image is not None, "the controller is active"
    return lambda: _controller(0).become_active(image, 0)


def _create(count: int) -> Message:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in _names(count)
    ]
    return CreateTopicsRequest(topics=topics)


def _more_partitions(count: int) -> Message:
    topics = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in _names(count)]
    return CreatePartitionsRequest(topics=topics)


def _configured(count: int) -> Message:
    entry = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resources = [
        AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[entry])
        for name in _names(count)
    ]
    return IncrementalAlterConfigsRequest(resources=resources)


def _delete(count: int) -> Message:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in _names(count)])


# The group coordinator.


def _commit(group_id: str, count: int) -> OffsetCommit:
    offsets = tuple(OffsetToCommit("t", number, 1, -1, "") for number in range(count))
    return OffsetCommit(
        group_id=group_id,
        member_id="",
        instance_id=None,
        generation=-1,
        retention_ms=-1,
        offsets=offsets,
        knows_group_id_not_found=True,
    )


def _handled(groups: int, event: Event) -> Work:
    """Handle ``event`` at a coordinator with this number of groups, and one more group with this
    number of offsets.
    """

    def work() -> Generator[Any, None, Any]:
        coordinator = GroupCoordinator(_LIMITS)
        for group_id in _names(groups):
            coordinator.handle(_commit(group_id, 1), "", _MOMENT)
        if groups:
            coordinator.handle(_commit("g", groups), "", _MOMENT)
        return coordinator.handle_in_slices(event, "", _MOMENT)

    return work
