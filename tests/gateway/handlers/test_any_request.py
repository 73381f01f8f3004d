"""Random requests to every handler: no field value of any API and version raises, and every
response can be encoded.
"""

from __future__ import annotations

import random

import pytest

from gateway.handlers.context import Handler
from gateway.handlers.table import COLLECTIONS, handlers
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import State
from kwire.message import Struct
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.handlers.world import MemoryPartition, World, over_the_wire
from tests.kwire.values import random_message

#: Group membership has a core of its own, with tests of its own.
KWIRES = {
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "api_versions",
    "offset_for_leader_epoch",
    "describe_configs",
    "describe_log_dirs",
    "describe_quorum",
    "describe_cluster",
    "describe_topic_partitions",
    "list_config_resources",
    "create_topics",
    "delete_topics",
    "create_partitions",
    "alter_configs",
    "incremental_alter_configs",
}
HANDLERS = [
    handler
    for handler in handlers().values()
    if handler.name in KWIRES or handler.handle.__module__.rpartition(".")[2] in COLLECTIONS
]


def aim(struct: Struct, version: int, rng: random.Random) -> None:
    """Make fields of a random request ones that hit: the topic's name and id, partition 0, offsets
    and epochs in the log.
    """
    for info in struct.fields():
        value = getattr(struct, info.attr)
        if not info.at(version) or value is None:
            continue
        if info.is_struct:
            for inner in value if isinstance(value, list) else [value]:
                aim(inner, version, rng)
        elif info.attr in ("topic", "name", "topic_name"):
            setattr(struct, info.attr, "__cluster_metadata")
        elif info.attr == "topic_id":
            setattr(struct, info.attr, METADATA_TOPIC_ID)
        elif info.attr in ("partition", "partition_index", "index"):
            setattr(struct, info.attr, 0)
        elif info.attr == "fetch_offset":
            setattr(struct, info.attr, rng.choice((0, 5, 14, 15, 16)))
        elif info.attr in ("current_leader_epoch", "last_fetched_epoch"):
            setattr(struct, info.attr, rng.choice((-1, 0, 1, 2, 3, 4)))


def worlds() -> list[World]:
    loading = World()
    loading.partition.state = State.LOADING
    forbidding = World()
    forbidding.authorizer.forbidden = {
        (operation, kind, "*")
        for operation in ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")
        for kind in ("TOPIC", "CLUSTER")
    }
    return [World(), loading, World(MemoryPartition()), forbidding]


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.name)
def test_random_request_never_raises(handler: Handler) -> None:
    rng = random.Random(handler.api_key)
    places = worlds()
    for version in handler.versions:
        cls = handler.request_type(version)
        for number in range(60):
            message = random_message(cls, version, rng)
            if number % 2:
                aim(message, version, rng)
            request = cls.decode(message.encode(version), version)
            for world in places:
                answer = handler.handle(request, world.context(version))
                if isinstance(answer, PendingResponse):
                    assert answer.expire is not None and answer.deadline is not None
                    answer = answer.expire()
                if answer is None:
                    assert handler.name == "produce"
                else:
                    over_the_wire(answer, version)
    assert [world.partition.open_reads for world in places] == [0] * len(places)
