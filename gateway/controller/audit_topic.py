"""Creates the audit topic, once every voter of the quorum is an unfenced broker: a periodic task of
the active controller.

No request asks for it, so no client can choose its partitions or replicas. Before that each node
serves its own audit log (``gateway.handlers.catalog``). Kafka has no counterpart; it creates
internal topics like a client does (``AutoTopicCreationManager``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.brokers import unfenced
from gateway.ports.services import AUDIT_TOPIC
from kwire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from gateway.controller.request_context import ControllerRequestContext
    from kwire.message import Message

#: As many as a quorum usually has voters, and as internal topics of Kafka have.
_REPLICAS_MAX: Final = 3
#: With three replicas an entry is on two of them when it is acknowledged.
_MIN_ISR: Final = "2"


def create_audit_topic(context: ControllerRequestContext) -> Slices[list[Message]]:
    """Return the records of the topic; none if it exists, or a voter is no unfenced broker."""
    yield
    configs, voters = context.settings.audit_topic, context.settings.serving_nodes
    if configs is None or AUDIT_TOPIC in context.image.topic_ids:
        return []
    # All of them: the entries of a node that is no broker would be in another place.
    if not set(voters) <= {one.broker_id for one in unfenced(context.image)}:
        return []
    replicas = min(_REPLICAS_MAX, len(voters))
    if replicas == _REPLICAS_MAX:
        configs = {**configs, "min.insync.replicas": _MIN_ISR}
    topic = CreatableTopic(
        name=AUDIT_TOPIC,
        num_partitions=1,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    # Imported on first use: a controller that becomes active imports the APIs one by one.
    from gateway.controller.apis.create_topics import create_topic

    records, _ = yield from create_topic(topic, context)
    return records
