"""Lists the events that the server logs: name, level, fields and meaning of each.

``gateway.server.logging.logs.Reports`` takes the level of an event from here. The tables of
docs/operations.md are written from here by ``python -m tools.check generated --fix``. A name is a
few lower case words; a field has the same name and unit in every event.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

#: Fields of an event that concerns a client's connection.
CONNECTION: Final = "connection listener peer principal"
#: Fields that identify a request.
REQUEST: Final = "api version correlation_id client_id"


class LogEvent(NamedTuple):
    """``level`` is a key of ``log_lines.LEVELS``; ``meaning`` is Markdown."""

    name: str
    level: str
    meaning: str
    fields: frozenset[str]


def _event(name: str, level: str, fields: str, meaning: str) -> LogEvent:
    return LogEvent(name, level, meaning, frozenset(fields.split()))


def _failure(name: str, meaning: str) -> LogEvent:
    """An error that the operating system, a peer or the configuration causes."""
    return _event(name, "error", "error", meaning)


def _problem(name: str, meaning: str) -> LogEvent:
    """A warning whose text in ``error`` says what is wrong."""
    return _event(name, "warning", "error", meaning)


def _bug(name: str, meaning: str, fields: str = "") -> LogEvent:
    """An exception that no code expected; the line has its traceback."""
    text = f"A bug of this server, with its traceback. {meaning}"
    return _event(name, "error", f"error exc_info {fields}", text)


_CLIENTS: Final = (
    _event(
        "request",
        "debug",
        f"{CONNECTION} {REQUEST} waits failed forwarded for_principal for_host for_client",
        "One line for each request; these are not limited in number. `waits`: the response is "
        "delayed, as in a long poll; `forwarded` and `for_...`: the request in an Envelope, and "
        "its client.",
    ),
    _event(
        "bad request",
        "warning",
        f"{CONNECTION} {REQUEST} software rule error",
        "A client sent bytes that do not follow the protocol. `rule` and `error` say why.",
    ),
    _event(
        "unsupported request",
        "warning",
        f"{CONNECTION} {REQUEST} api_key software error",
        "A client asked for an API or version that this server does not have, or sent a request "
        "before it authenticated. Logged once for each `software` and API.",
    ),
    _event(
        "authentication failed",
        "warning",
        f"{CONNECTION} software error",
        "A client failed to authenticate. `error` is the reason in the response.",
    ),
    _event(
        "handshake failed",
        "warning",
        f"{CONNECTION} software error",
        "TLS: no common version or cipher, or a certificate that is not trusted.",
    ),
    _event(
        "connection refused",
        "warning",
        "listener peer error",
        "A new connection was closed. `error` is the configuration key of the limit.",
    ),
    _event(
        "connection cut",
        "info",
        f"{CONNECTION} software error",
        "The server closed a connection. `error` is the configuration key of the limit.",
    ),
    _event(
        "idle connection closed",
        "debug",
        f"{CONNECTION} software error",
        "A connection sent and received nothing for `connections.max.idle.ms`.",
    ),
    _event(
        "peer disconnected",
        "debug",
        f"{CONNECTION} software error",
        "The client closed the connection while the server read from it or wrote to it.",
    ),
    _event(
        "response truncated",
        "warning",
        f"{CONNECTION} software error",
        "The log lost bytes that a Fetch response had announced. The connection is closed.",
    ),
    _event(
        "connections not accepted",
        "error",
        "listener error",
        "The system is out of file descriptors or memory. The server accepts again later.",
    ),
    _problem(
        "source problem",
        "The files have a corrupt batch or a torn tail, or cannot be read (file, position).",
    ),
    _event("source recovered", "info", "", "The source has no problem any more."),
    _problem("worker silent", "The node accepts for a worker that does not answer (`error`)."),
    _problem("worker ended", "The process of a worker ended (`error`); another takes its place."),
    _event(
        "event loop held",
        "warning",
        f"{CONNECTION} {REQUEST} milliseconds task",
        "A step of this server took 50 ms of processor time or longer, while every other client "
        "waited: `milliseconds`, `task`, and the request where there was one.",
    ),
    _bug("internal error", "The connection is closed.", f"{CONNECTION} {REQUEST} path"),
    _bug("source not read", "The log is read again."),
)

_GROUPS: Final = (
    _problem(
        "offset store damaged",
        "Files of the last run were damaged at start. `error` names the file, and says what the "
        "server does about it.",
    ),
    _failure(
        "offset store write failed",
        "Commits could not be written to the disk. They are answered with an error, and groups "
        "are loaded from the disk again.",
    ),
    _event(
        "offset store rewrite failed",
        "warning",
        "error retry_s",
        "The file of offsets could not be compacted. The server tries again after `retry_s`.",
    ),
    _event(
        "offset store unavailable",
        "error",
        "error retry_s",
        "The files of offsets cannot be opened, so requests of groups are refused. The server "
        "tries again after `retry_s`.",
    ),
    _event(
        "earlier offsets taken over",
        "info",
        "records",
        "The offsets that an earlier release kept in `state.dir` are in `__consumer_offsets` now.",
    ),
    _failure(
        "group partition not loaded",
        "A partition of `__consumer_offsets` cannot be read. Its groups have no coordinator until "
        "it has another leader.",
    ),
    _event("offset store available", "info", "", "The server answers requests of groups again."),
    _event(
        "group converted",
        "info",
        "group type",
        "A member of the other protocol joined a group with members, or those of one protocol "
        "were left: `type` is `consumer` (KIP-848) or `classic` now.",
    ),
    _event(
        "group limit reached",
        "warning",
        "limit principal group",
        "A request was refused: `limit` is the configuration key of the limit, `principal` has "
        "reached it.",
    ),
    _bug(
        "group request failed",
        "One request fails; members of `group` may have to join again.",
        "group operation",
    ),
    _bug("group coordinator failed", "Groups are loaded again from disk.", "event_type"),
    _bug("group response failed", "One response is lost.", "result"),
)

_QUORUM: Final = (
    _event(
        "leader changed",
        "info",
        "epoch leader_id",
        "The quorum has another leader, or none: then `leader_id` is -1.",
    ),
    _event("leader resigns", "warning", "epoch reason", "This node stops leading."),
    _event(
        "request failed",
        "warning",
        "address kind reason",
        "A node did not answer. `kind` is `unreachable`, `refused`, `closed`, `timeout`, "
        "`undecodable`, `unsupported_version` or `unauthorized`.",
    ),
    _event(
        "request refused",
        "warning",
        "sender error",
        "A node answered with an error, most often because it does not lead. This node tries "
        "another one.",
    ),
    _event(
        "access denied",
        "warning",
        "address reason",
        "A node refuses this node's Fetch; `reason` names the missing permission. This node tries "
        "again after 5 s.",
    ),
    _event(
        "protocol violation",
        "warning",
        "sender reason",
        "A node sent a message that the protocol does not allow. It is counted and ignored.",
    ),
    _event("epoch not believed", "error", "sender named proven", "No election reaches `named`."),
    _event("cluster id unknown", "info", "reason", "A controller did not give the cluster id."),
    _event("voters unknown", "info", "reason", "A controller did not give the voters."),
    _event(
        "log truncated",
        "info",
        "at to epoch leader_epoch leader below",
        "Records that were never committed are removed: the log ended `at`, and now ends at `to`.",
    ),
    _event("snapshot begun", "info", "snapshot leader", "A download of a snapshot began."),
    _event(
        "snapshot installed",
        "info",
        "snapshot bytes",
        "The leader's snapshot replaces the log up to its end.",
    ),
    _event(
        "snapshot given up",
        "warning",
        "snapshot leader reason",
        "The download ended without a snapshot. `reason` says why.",
    ),
    _event(
        "history tried",
        "info",
        "below at leader",
        "The leader offers a snapshot; this node fetches its log instead (`quorum.history`).",
    ),
    _event("history found", "info", "below leader", "The leader still has the log from offset 0."),
    _event(
        "voter updated",
        "info",
        "error",
        "The leader has stored this voter's addresses and versions.",
    ),
    _event(
        "voter not updated",
        "info",
        "error",
        "The leader did not store this voter's addresses and versions.",
    ),
    _event("voter added", "info", "error", "The leader added this node to the voters."),
    _event("voter not added", "info", "error", "The leader did not add this node to the voters."),
    _event(
        "former voter removed",
        "info",
        "error",
        "The leader removed the voter that has this node's id and another directory.",
    ),
    _event(
        "former voter not removed",
        "info",
        "error",
        "The leader did not remove the voter that has this node's id and another directory.",
    ),
    _problem(
        "log repaired",
        "The end of the log held an unfinished write at start, which was removed.",
    ),
    _failure("log not written", "A write failed, often of a full disk. The server tries again."),
    _failure("log not cleaned", "Retention could not delete files."),
    _event("log cleaned", "info", "deleted", "Retention deleted the files in `deleted`."),
    _failure(
        "log not closed",
        "The log could not be closed when the server stopped. The next start checks it.",
    ),
    _event("snapshot written", "info", "snapshot bytes records", "This node wrote a snapshot."),
    _problem("snapshot not written", "A snapshot could not be written. `error` is the reason."),
    _problem(
        "image behind",
        "The metadata image, from which snapshots and some responses are made, lacks changes.",
    ),
    _problem("record not applied", "The metadata image, or the view topics, ignore a record."),
    _failure("image not whole", "The image lacks a part of the log: this node does not lead."),
    _event("image whole", "info", "", "The metadata image is the whole committed log again."),
    _problem(
        "weak security",
        "The client properties allow weaker security than is possible. `error` says which.",
    ),
    _problem("no super user can log in", "The leader has read the log, and found no credential."),
    _problem(
        "node not registered",
        "The controller refused this node's registration. This node tries again.",
    ),
    _failure(
        "following stopped",
        "The server stops following the quorum and ends with status 1. `error` is the reason.",
    ),
    _bug("quorum description failed", "DescribeQuorum is answered with an error."),
    _bug("quorum response not delivered", "One response is lost."),
    _bug("image update failed", "The server tries again."),
    _bug("view not made", "Readers of the view topics wait, and the server tries again."),
    _problem("views end", "A record has more changes than the view topics have offsets for."),
    _bug("log cleaning failed", "The server tries again."),
    _bug("quorum core failed", "A voter exits with status 1; an observer's core restarts.", "at"),
    _bug(
        "log write failed",
        "A voter ends with status 1, and the next start checks the log. An observer tries again.",
    ),
)

_CONTROLLER: Final = (
    _event(
        "controller active",
        "info",
        "epoch offset",
        "This node is the active controller and decides on requests from `offset` on.",
    ),
    _event(
        "metadata changed",
        "info",
        "api principal host client_id offset last_offset",
        "The active controller logs each committed change by a client: the request, the client, "
        "and the offsets of its records. The event is never suppressed, and is in the [audit "
        "topic](audit.md), too.",
    ),
    _event(
        "change not recorded",
        "error",
        "api principal offset last_offset error",
        "The audit topic lacks an entry that could not be written. The change itself is made and "
        "answered.",
    ),
    _problem(
        "audit log repaired",
        "Entries of the audit log were removed, lost or set aside, at start or after a failed "
        "write. `error` has file, position and offsets.",
    ),
    _failure(
        "audit log not synced",
        "The operating system failed to write the audit log's entries to the disk. The server "
        "tries again.",
    ),
    _failure(
        "audit log not cleaned",
        "The operating system failed to delete old segments of the audit log. The server tries "
        "again.",
    ),
    _failure(
        "audit log not opened",
        "The operating system failed to open the files of the audit log. The server tries again.",
    ),
    _event("audit log cleaned", "info", "deleted", "Retention deleted the segments in `deleted`."),
    _bug("audit log failed", "Changes are still made and answered."),
    _event(
        "audit entries wait",
        "warning",
        "error count",
        "The audit topic lacks `count` entries of this node, because its leader does not take them "
        "for the reason in `error`. The node keeps them in its audit log, and tries again.",
    ),
    _event(
        "audit entries lost",
        "error",
        "count",
        "Retention has deleted `count` entries in this node's audit log that the audit topic does "
        "not have.",
    ),
    _bug("audit entries not forwarded", "The audit log keeps them. The server tries again."),
    _event(
        "broker session expired",
        "warning",
        "broker_id broker_epoch",
        "The active controller fences a broker that sent no heartbeat for "
        "`broker.session.timeout.ms`.",
    ),
    _event(
        "request not forwarded",
        "warning",
        "api error",
        "The active controller could not be reached. This node tries again until the request's "
        "deadline.",
    ),
    _event(
        "forwarding refused",
        "error",
        "api controller error",
        "The active controller does not accept forwarded requests: `CLUSTER_AUTHORIZATION_FAILED` "
        "where this node's principal lacks CLUSTER_ACTION.",
    ),
    _failure(
        "proposal refused",
        "Records of a request cannot be appended to the log. Its client gets an error.",
    ),
    _bug("controller request failed", "This node resigns; another one takes over.", "api"),
    _bug("controller activation failed", "This node resigns; another one takes over."),
    _bug("periodic task failed", "This node resigns; another one takes over."),
)

_BROKER: Final = (
    _event("broker registered", "info", "broker_epoch", "The controller knows this broker."),
    _event(
        "broker unfenced",
        "info",
        "broker_epoch",
        "This broker leads partitions from now on: its logs are open.",
    ),
    _bug("transaction request failed", "One request fails.", "operation"),
    _event(
        "transactions not loaded",
        "warning",
        "partition error",
        "The transactional ids of `partition` cannot be read: their producers wait.",
    ),
    _event(
        "transaction marker refused",
        "warning",
        "transactional_id partition error",
        "`partition` has a later marker of another coordinator: the transaction stays prepared "
        "until the node is started again.",
    ),
    _problem(
        "broker not registered",
        "The controller refuses the registration with `error`. It is sent again until it is "
        "accepted; logged once for each reason.",
    ),
    _problem(
        "partition repaired",
        "Opening a partition has cut off the end of its log, as after a crash of the machine.",
    ),
    _event(
        "isr changed",
        "info",
        "partition isr before partition_epoch",
        "The controller has changed the in-sync replicas of a partition that this broker leads, "
        "from `before` to `isr`.",
    ),
    _event(
        "isr not changed",
        "warning",
        "partition partitions error",
        "The controller has refused, with `error`, a change of the in-sync replicas of "
        "`partition`, or of all `partitions` of a request. The leader asks again, or takes the "
        "state from the metadata log.",
    ),
    _problem(
        "high watermarks not saved",
        "`replication-offset-checkpoint` could not be written; the next write tries again.",
    ),
    _failure(
        "log directory offline",
        "The disk of a log directory has failed: its partitions get KAFKA_STORAGE_ERROR until the "
        "broker is started again, and other brokers lead them.",
    ),
    _event(
        "partition moved",
        "info",
        "partition directory",
        "A client had the log of `partition` moved to the log directory `directory`.",
    ),
    _failure(
        "partition not moved",
        "A log could not be moved to another log directory, and stays where it is.",
    ),
    _event(
        "replicas not assigned",
        "warning",
        "error partitions",
        "The controller has not noted, with `error`, in which log directory `partitions` replicas "
        "are. The broker asks again.",
    ),
    _failure(
        "records refused",
        "The disk refuses records, with `error`: it is full, for one. Producers get "
        "KAFKA_STORAGE_ERROR and try again; what is there is served. Logged once a minute at most.",
    ),
    _event("records taken again", "info", "", "The disk takes records of producers again."),
    _event(
        "partition cleaned",
        "info",
        "partition deleted",
        "Retention deleted the segments in `deleted`.",
    ),
    _event(
        "partition compacted",
        "info",
        "partition up_to bytes",
        "Superseded records below the offset `up_to` were removed; `bytes` were read for that.",
    ),
    _failure(
        "partition not compacted",
        "A log cannot be compacted. It keeps all records; the next start tries again.",
    ),
    _failure(
        "partition not synced",
        "A log could not be brought to disk, or how far it is there could not be noted. It is read "
        "again from where it was on disk.",
    ),
    _problem(
        "partition set aside",
        "A directory belongs to no partition that the cluster places on this broker. Nothing in it "
        "was changed: delete it if its records are not needed.",
    ),
    _failure(
        "partition not opened",
        "A log cannot be opened. Clients get KAFKA_STORAGE_ERROR; `error` says what to do.",
    ),
    _problem(
        "leader not reached",
        "This broker cannot fetch from another one, and goes on trying; logged once for each "
        "reason.",
    ),
    _event(
        "partition not fetched",
        "warning",
        "partition leader error",
        "The leader refuses to let this broker follow the partition, or its records cannot be "
        "appended. It is tried again; logged once for each reason.",
    ),
    _event(
        "partition truncated",
        "warning",
        "partition leader from_offset to_offset",
        "The leader has other records than this broker from `to_offset` on, or none: this broker "
        "dropped its own.",
    ),
    _failure(
        "partition not deleted",
        "The directory of a deleted topic, or a file of a deleted segment, is still there.",
    ),
    _failure(
        "internal topic not created",
        "The topic in which a coordinator keeps its state could not be created. Clients get "
        "COORDINATOR_NOT_AVAILABLE, and ask again.",
    ),
)

#: The tables of docs/operations.md, by the name in their markers.
SECTIONS: Final = MappingProxyType(
    {
        "connections and requests": _CLIENTS,
        "groups": _GROUPS,
        "quorum and log": _QUORUM,
        "controller and audit": _CONTROLLER,
        "broker": _BROKER,
    }
)
#: Every event by its name.
EVENTS: Final = MappingProxyType(
    {event.name: event for events in SECTIONS.values() for event in events}
)
