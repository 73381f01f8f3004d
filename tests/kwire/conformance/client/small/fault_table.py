"""The faults of small clients, each with the rule that is named for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kwire.conformance.catalog import client_rules
from kwire.protocol import ApiKey, ErrorCode


class ClientFault(NamedTuple):
    """A fault of a client of a kind; see the package."""

    kind: str
    fault: str
    rule: str


#: The wrong behaviour that each word stands for.
SENTENCES: Final = {
    "recv-is-frame": "takes the bytes of one recv for a whole answer",
    "prints-twice": "hands each record over twice",
    "no-header-tags": "ends at an unknown tagged field in a header",
    "no-tags": "ends at an unknown tagged field in a body",
    "no-struct-tags": "ends at an unknown tagged field in a struct",
    "negative-size": "waits for the rest of an answer of negative size",
    "any-id": "does not compare correlation ids",
    "dies-on-close": "ends when a connection closes",
    "hammers": "connects again without a pause",
    "stays": "asks for no metadata after an error",
    f"dies-of-{ErrorCode.UNKNOWN_LEADER_EPOCH:d}": "ends at UNKNOWN_LEADER_EPOCH",
    f"dies-of-{ErrorCode.KAFKA_STORAGE_ERROR:d}": "ends at KAFKA_STORAGE_ERROR",
    f"dies-of-{ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:d}": "ends at UNKNOWN_TOPIC_OR_PARTITION",
    "no-unknown-error": "ends at an error code that it does not know",
    "keeps-session": "sends the id of a fetch session that is gone again",
    "repeats": "repeats a Fetch that is out of range",
    "no-validation": "does not ask a new leader for the end of the epoch before",
    "ignores-truncation": "fetches on from an offset that the new leader does not have",
    "no-patience": "ends at an error that passes",
    "no-topic": "ends when a node does not know the topic",
    "bootstrap-only": "sends every request to the bootstrap address",
    "needs-every-node": "ends when a node that was named refuses its connection",
    "asks-bootstrap": "asks the bootstrap address alone for metadata",
    "any-epoch": "takes metadata with a lower leader epoch",
    "ignores-hint": "does not read the leader in a Fetch answer",
    "no-crc": "does not compare CRCs",
    "no-cut-batch": "ends at a batch that is cut",
    "no-skip": "hands over the records before its offset",
    "counts-records": "counts records to get the next offset",
    "prints-control": "hands over control records",
    "prints-aborted": "hands over records of aborted transactions",
    "no-large-batch": "ends at a batch above its limit",
    "no-append-time": "ends at a batch with the time of the append",
    "no-compression": "ends at a compressed batch",
    "no-throttle": "does not wait for a throttle time",
    "beyond-range": "sends versions above those that are offered",
    "own-versions": "sends its own newest versions, whatever is offered",
    "highest-version": "sends the highest version that is offered",
    "no-unknown-apis": "ends at an API that it does not know",
    "no-fallback": "ends when its version of ApiVersions is refused",
    "keeps-coordinator": "does not look for the coordinator that has moved",
    "drops-member-id": "joins without the member id that it was given",
    "forgets-member-id": "joins a rebalance as a new member",
    "keeps-member-id": "joins with a member id that is unknown",
    "ignores-generation": "does not join again after ILLEGAL_GENERATION",
    "assigns-nothing": "sends no assignment as the leader of its group",
    "old-generation": "sends the generation before in Heartbeat",
    "ignores-commits": "begins at the start of the log in spite of a committed offset",
    "stays-in-group": "does not leave its group at the end",
    "no-retry": "ends at an error of Produce that passes",
    "drops-refused": "goes on after a batch that was refused",
    "new-sequence": "writes a batch whose answer was lost with a new sequence",
    "duplicate-is-error": "ends at DUPLICATE_SEQUENCE_NUMBER",
    "seven-in-flight": "sends all batches without waiting for an answer",
    "authenticates-once": "authenticates its first connection alone",
    "shows-secret": "sends its secret in spite of a refused mechanism",
    "goes-on-refused": "sends requests before it is authenticated",
    "session-is-final": "ends when its SASL session does",
    "no-renewal": "does not authenticate again before its SASL session ends",
}
_CONSUMERS: Final = {
    "client-answers": {
        "split-every-byte": "recv-is-frame",
        "slow": "prints-twice",
        "unknown-tags-in-header": "no-header-tags",
        "unknown-tags-in-body": "no-tags",
        "unknown-tags-in-structs": "no-struct-tags",
        "negative-size": "negative-size",
        "other-correlation-id": "any-id",
    },
    "client-close": {
        "at-connect": "dies-on-close",
        "inside-every-answer": "dies-on-close",
        "reconnects-slowly": "hammers",
    },
    "client-fetch": {
        "unknown-topic-id": "stays",
        "fenced-epoch": "stays",
        "unknown-epoch": f"dies-of-{ErrorCode.UNKNOWN_LEADER_EPOCH:d}",
        "storage-error": f"dies-of-{ErrorCode.KAFKA_STORAGE_ERROR:d}",
        "unknown-topic": f"dies-of-{ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:d}",
        "unknown-error": "no-unknown-error",
        "session-lost": "keeps-session",
        "offset-out-of-range": "repeats",
        "position-validated": "no-validation",
        "log-is-truncated": "ignores-truncation",
    },
    "client-metadata": {
        "leader-not-available": "no-patience",
        "unknown-topic": "no-topic",
        "unknown-error": "no-patience",
        "advertised-leader": "bootstrap-only",
        "dead-nodes": "needs-every-node",
        "leader-moves": "stays",
        "leader-is-gone": "asks-bootstrap",
        "epoch-goes-back": "any-epoch",
        "leader-in-answer": "ignores-hint",
    },
    "client-records": {
        "crc": "no-crc",
        "cut-batch": "no-cut-batch",
        "begins-inside-batch": "no-skip",
        "gaps": "counts-records",
        "empty-batch": "counts-records",
        "empty-batch-at-end": "counts-records",
        "control-batch": "prints-control",
        "control-batch-at-end": "prints-control",
        "aborted-transaction": "prints-aborted",
        "above-limit": "no-large-batch",
        "log-append-time": "no-append-time",
        **dict.fromkeys(("gzip", "snappy", "lz4", "zstd"), "no-compression"),
    },
    "client-throttle": dict.fromkeys(("Fetch", "Metadata", "ListOffsets"), "no-throttle"),
    "client-versions": {
        "in-range": "beyond-range",
        "older-server": "own-versions",
        "newer-server": "highest-version",
        "unknown-apis": "no-unknown-apis",
        "refused": "no-fallback",
    },
}
_MEMBERS: Final = {
    "client-group": {
        "coordinator-not-available": "no-patience",
        "coordinator-loading-find": "no-patience",
        "coordinator-loading-join": "no-patience",
        "coordinator-loading-offsets": "no-patience",
        "not-coordinator-join": "keeps-coordinator",
        "not-coordinator-sync": "keeps-coordinator",
        "not-coordinator-offsets": "keeps-coordinator",
        "coordinator-moves": "keeps-coordinator",
        "member-id-required": "drops-member-id",
        "rebalance": "forgets-member-id",
        "unknown-member": "keeps-member-id",
        "illegal-generation": "ignores-generation",
        "assigns-partition": "assigns-nothing",
        "ids-of-the-answer": "old-generation",
        "committed-offset": "ignores-commits",
        "leaves": "stays-in-group",
    },
    "client-throttle": {"FindCoordinator": "no-throttle"},
}
_PRODUCERS: Final = {
    "client-produce": {
        "not-leader-or-follower": "no-retry",
        "leader-not-available": "no-retry",
        "not-enough-replicas": "drops-refused",
        "not-enough-replicas-after-append": "drops-refused",
        "request-timed-out": "drops-refused",
        "kafka-storage-error": "no-retry",
        "unknown-topic-or-partition": "no-retry",
        "leader-moves": "stays",
        "lost-answer": "new-sequence",
        "duplicate-sequence": "duplicate-is-error",
        "five-in-flight": "seven-in-flight",
        "order": "drops-refused",
    },
    "client-throttle": {"Produce": "no-throttle"},
}
_SASL: Final = {
    "client-sasl": {
        "first": "authenticates-once",
        "mechanism-refused": "shows-secret",
        "refused": "goes-on-refused",
        "session-ends": "session-is-final",
        "authenticates-again": "no-renewal",
    },
}
#: The kind of client that sends an API; a consumer sends all others.
_KINDS: Final = {
    ApiKey.FIND_COORDINATOR: "member", ApiKey.JOIN_GROUP: "member", ApiKey.SYNC_GROUP: "member",
    ApiKey.HEARTBEAT: "member", ApiKey.OFFSET_FETCH: "member", ApiKey.OFFSET_COMMIT: "member",
    ApiKey.INIT_PRODUCER_ID: "producer", ApiKey.PRODUCE: "producer",
    ApiKey.SASL_HANDSHAKE: "sasl", ApiKey.SASL_AUTHENTICATE: "sasl",
}  # fmt: skip


def _rows() -> Iterator[ClientFault]:
    for kind, families in (
        ("consumer", _CONSUMERS), ("member", _MEMBERS), ("producer", _PRODUCERS), ("sasl", _SASL),
    ):  # fmt: skip
        for family, faults in families.items():
            for name, fault in faults.items():
                yield ClientFault(kind, fault, f"{family}.{name}")
    # A client that ends with the first connection that closes, at each API.
    for rule in client_rules():
        if rule.family == "client-close" and rule.api is not None:
            yield ClientFault(_KINDS.get(rule.api, "consumer"), "dies-on-close", rule.id)


CLIENT_FAULTS: Final = tuple(_rows())
