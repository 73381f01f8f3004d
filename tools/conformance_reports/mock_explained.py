"""Explains the rules that librdkafka's mock cluster does not keep."""

from __future__ import annotations

from typing import Final

from tools.conformance_reports.causes import BYTES, FRAMES, OLD_CLIENTS, Cause

_MOCK_FORM: Final = "which kafka-python's codec cannot decode either"
MOCK: Final = (
    Cause(
        "api-versions.too-new* api-versions.next-version",
        "ApiVersions above version 2 is refused in a form that is that of no version: a count of"
        " one byte and entries without tagged fields behind UNSUPPORTED_VERSION (KIP-511: version"
        " 0)",
        f"{BYTES} ApiVersions 3 is answered with `0023 01 0012 0000 0002 00000000`; `kafka-topics"
        " --list` of Kafka 4.3.1 gets no answer in 25 s",
    ),
    Cause(
        "api-versions.no-removed-versions",
        f"Fetch 0 and others: {OLD_CLIENTS}",
        "`kcat -X debug=feature` lists them",
    ),
    Cause(
        "schema.Metadata.* tolerance.Metadata.*",
        "Metadata from version 9 on has a byte too many behind its body. The rules that need"
        " Metadata on the way ran with Metadata 8 and Fetch 12",
        "kafka-python's codec decodes Metadata 10, 12 and 13 and leaves a byte over",
        "1 byte left over",
    ),
    Cause(
        "schema.ShareGroupHeartbeat.* tolerance.ShareGroupHeartbeat.*",
        "ShareGroupHeartbeat has a byte too many behind its body",
        "no other program here has this API and shows bytes that are left over",
        "1 byte left over",
    ),
    Cause(
        "schema.*.truncated",
        "A request of a flexible version without its last byte, the number of its tagged fields, is"
        " answered: it does not look at them",
        f"{BYTES} Heartbeat 4 without its last byte, `00000014 000c 0004 00000001 ffff 00 0267"
        " 00000001 026d 00`, is answered",
        "the server answered",
    ),
    Cause(
        "schema.JoinGroup.v6.* tolerance.JoinGroup.*",
        "JoinGroup 6 is offered, and closes the connection",
        f"{FRAMES} JoinGroup 6 with the protocol `range` closes the connection, JoinGroup 5 with"
        " it is answered after 3 s",
    ),
    Cause(
        "schema.JoinGroup.*.answered",
        "JoinGroup without protocols is not answered",
        f"{FRAMES} JoinGroup 2 and 5 without protocols and with a session timeout of 6 s end the"
        " process after 3 s with SIGSEGV",
    ),
    Cause(
        "schema.SyncGroup.v4.* tolerance.SyncGroup.*",
        "SyncGroup 4 is offered, and closes the connection",
        f"{FRAMES} SyncGroup 4 closes the connection, SyncGroup 3 is answered",
    ),
    Cause(
        "schema.SyncGroup.*.answered",
        "A SyncGroup that is refused is answered with a null assignment, which the schema does not"
        " allow",
        f"{FRAMES} SyncGroup 2 and 3 for an unknown group have error 69 and a null assignment",
    ),
    Cause(
        "schema.LeaveGroup.* tolerance.LeaveGroup.*",
        "LeaveGroup 3 and 4 that are refused have an answer without its members",
        f"{FRAMES} LeaveGroup 3 and 4 for an unknown group have an answer of 6 bytes, {_MOCK_FORM}",
    ),
    Cause(
        "schema.ShareFetch.* schema.ShareAcknowledge.*",
        "The second ShareFetch or ShareAcknowledge for a group ends the process with SIGSEGV",
        "the exit status of the process; no other program here sends these requests",
    ),
    Cause(
        "framing.size-* framing.header-short framing.answers-before-a-fault framing.others-live-on",
        "A frame whose size is 0, negative or of 2 GiB, or below that of a header, leaves the"
        " connection open, without an answer",
        f"{BYTES} `00000000`, `ffffffff`, `7fffffff` and `00000007 0012 0000 000000`; open and"
        " silent for 6 s",
        "stayed open",
    ),
    Cause(
        "framing.answered-after-half-close",
        "A client that closes its side behind a request gets no answer if both come together",
        f"{BYTES} ApiVersions 2 and shutdown(SHUT_WR): 16 of 20 got no answer",
    ),
    Cause(
        "fetch.error-does-not-wait",
        "A Fetch whose partition has an error waits for its time",
        f"{FRAMES} Fetch 11 at offset 1,000,000 of 100 with MaxWaitMs 5000 has error 1 after 5.0 s",
    ),
    Cause(
        "fetch-sessions.*",
        "Fetch sessions are not kept, and any session id is accepted",
        f"{FRAMES} Fetch 11 with session 12345 and epoch 1 has error 0, session 12345 and no"
        " records",
    ),
    Cause(
        "list-offsets.by-time-* list-offsets.max-timestamp",
        "ListOffsets finds no offset by time",
        "`kcat -Q -t records:0:0` prints offset -1 for a partition with 100 records",
    ),
    Cause(
        "list-offsets.max-timestamp-is-new",
        "Timestamp -3 is no error below version 7",
        f"{FRAMES} ListOffsets 4 and 5 with timestamp -3 have error 0 and offset -1",
    ),
    Cause(
        "list-offsets.leader-epoch list-offsets.end-of-current-epoch",
        "The end of a log has no leader epoch in ListOffsets",
        f"{FRAMES} ListOffsets 4 has epoch 0 for the earliest offset and -1 for the latest",
    ),
    Cause(
        "list-offsets.end-of-unknown-epoch",
        "The end of an epoch that is not there is answered with that epoch, Kafka's with -1",
        f"{FRAMES} OffsetForLeaderEpoch 2 for epoch 2000000000 has that epoch and end -1",
    ),
    Cause(
        "list-offsets.partition-twice",
        "A partition that is named twice is answered twice",
        f"{FRAMES} ListOffsets 4 with the same partition twice has two offsets and error 0",
    ),
    Cause(
        "metadata.asked-twice",
        "A topic that is named twice is described twice",
        f"{FRAMES} Metadata 4",
    ),
    Cause(
        "metadata.controller-is-a-broker",
        "The controller has id 0, which no broker has",
        "`kcat -L -J` shows `controllerid` 0 and the broker 1",
    ),
    Cause(
        "metadata.invalid-name",
        "The name of a topic that cannot be is unknown, not invalid",
        f"{FRAMES} Metadata 4 for `a b` has error 3",
    ),
    Cause(
        "metadata.*operations*",
        "Operations that are asked for are missing",
        f"{FRAMES} Metadata 8 with both asked for has none",
    ),
    Cause(
        "transactions.timeout-too-long",
        "A transaction may last as long as it likes (`transaction.max.timeout.ms`)",
        f"{FRAMES} InitProducerId 2 with a timeout of 24 days has error 0",
    ),
)
