"""Writes a change of the cluster as a record of the audit topic: the requester, the request, and
the offsets of its records in the metadata log.

A record is one JSON object in one line of ASCII, so that a terminal may show it whatever a client
calls itself. Of the request it has the names of the resources, which the caller passes, and nothing
that was set: no value of a configuration, no credential. Files are written in ``log/audit_log.py``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.ports.services import Forwarder, Requester
    from kwire.message import Message

#: Characters of a text that a client chose, in a record; a longer text ends in an ellipsis.
TEXT_MAX: Final = 1000
#: Resources that a record names; it has the number of all of them besides.
RESOURCES_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Change:
    """A request whose records were committed at ``time_ms`` since the epoch.

    The records are at ``offset`` to ``last_offset`` of ``__cluster_metadata``. Node ``node_id``
    wrote them as the leader of ``leader_epoch``.
    """

    request: Message
    version: int
    requester: Requester
    node_id: int
    leader_epoch: int
    offset: int
    last_offset: int
    time_ms: int

    @property
    def api(self) -> str:
        """The name of the API, as Kafka's documentation has it: ``CreateTopics``."""
        return self.request.NAME.removesuffix("Request")


def audit_value(
    change: Change,
    time: str,
    resources: Sequence[tuple[str, str | None]],
    *,
    not_recorded: int = 0,
) -> bytes:
    """Return the value of the record. ``time`` is the commit time in ISO 8601.

    ``resources`` are the types and names that the request gives. ``not_recorded`` is the number of
    changes before this one that could not be recorded, and are missing in the topic.
    """
    requester = change.requester
    value: dict[str, Any] = {
        "time": time,
        "api": change.api,
        "version": change.version,
        "principal": _text(requester.principal),
        "host": _text(requester.host),
        "client_id": _text(requester.client_id),
        "token_authenticated": requester.token_authenticated,
        "listener": requester.listener,
        "forwarder": _forwarder(requester.forwarder),
        "node_id": change.node_id,
        "leader_epoch": change.leader_epoch,
        "offset": change.offset,
        "last_offset": change.last_offset,
        "records": change.last_offset - change.offset + 1,
        "resources": [
            {"type": kind, "name": _text(name)} for kind, name in resources[:RESOURCES_MAX]
        ],
        "resources_in_all": len(resources),
    }
    if not_recorded:
        value["not_recorded_before"] = not_recorded
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _forwarder(node: Forwarder | None) -> dict[str, str | None] | None:
    if node is None:
        return None
    return {
        "principal": _text(node.principal),
        "host": _text(node.host),
        "client_id": _text(node.client_id),
    }


def _text(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
