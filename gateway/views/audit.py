"""A change of the cluster as a record of the audit topic: who asked for what, from where, and where in the log it stands.

One JSON object in one line, ASCII, so that a terminal may show it whatever a client calls itself. Of a request it tells the
names of what it is about (``named_resources``) and nothing that was set: no value of a configuration, no credential.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.views.named_resources import named_resources

if TYPE_CHECKING:
    from gateway.ports import Asker, Forwarder
    from kwire.message import Message

#: Characters of a text that a client chose, in a record; what is longer ends in an ellipsis.
TEXT_MAX: Final = 1000
#: Resources that a record names; of the others it says how many there are.
RESOURCES_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Change:
    """A request that was carried out, once it is committed at ``time_ms`` since the epoch.

    Its records are at ``offset`` to ``last_offset`` of ``__cluster_metadata``, written in ``leader_epoch``, when node
    ``node_id`` led.
    """

    request: Message
    version: int
    asker: Asker
    node_id: int
    leader_epoch: int
    offset: int
    last_offset: int
    time_ms: int

    @property
    def api(self) -> str:
        """The name of what was asked for, as in Kafka's documentation of its protocol."""
        return self.request.NAME.removesuffix("Request")


def audit_value(change: Change, time: str, *, not_recorded: int = 0) -> bytes:
    """The value of the record. ``time`` is when it was committed, as people read it.

    ``not_recorded``: changes before this one that could not be recorded, and are missing in the topic.
    """
    asker = change.asker
    resources = named_resources(change.request)
    told: dict[str, Any] = {
        "time": time,
        "api": change.api,
        "version": change.version,
        "principal": _text(asker.principal),
        "host": _text(asker.host),
        "client_id": _text(asker.client_id),
        "token_authenticated": asker.token_authenticated,
        "listener": asker.listener,
        "forwarder": _forwarder(asker.forwarder),
        "node_id": change.node_id,
        "leader_epoch": change.leader_epoch,
        "offset": change.offset,
        "last_offset": change.last_offset,
        "records": change.last_offset - change.offset + 1,
        "resources": [{"type": kind, "name": _text(name)} for kind, name in resources[:RESOURCES_MAX]],
        "resources_in_all": len(resources),
    }
    if not_recorded:
        told["not_recorded_before"] = not_recorded
    return json.dumps(told, separators=(",", ":")).encode("ascii")


def _forwarder(node: Forwarder | None) -> dict[str, str | None] | None:
    if node is None:
        return None
    return {"principal": _text(node.principal), "host": _text(node.host), "client_id": _text(node.client_id)}


def _text(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
