"""Readable scenarios for the observer: a text with what the others say, and what the observer says
and does to it.

Lines of a transcript that are read::

    settings bootstrap=1,2 replica_id=5 history=yes     its settings; voter N is at voterN:909N
    version 16                                   of every later request (default: the newest)
    log 0-0@1 1-3@1 4-5@2                        batches on disk: first-last@epoch; or snapshot=20-2
    start epoch=2 leader=1 hw=4                  the stored state; the observer starts
    + 0.5                                        seconds that pass before the next response
    < fetch epoch=2 leader=1 hw=6 records=6-7@2  a response; also error= top= start= nodes=1,2
                                                 diverging=epoch:end snapshot=end-epoch, corrupt
    < snapshot id=20-2 size=8 at=0 bytes=abcd ...     a response to FetchSnapshot
    < quorum voters=1,2,3   < cluster id=abc     DescribeQuorum and DescribeCluster; also error=
    ! closed                                     no response: unreachable, closed, timeout, ...

``to=2``: the response of voter 2, where two requests are open. Everything else is written: ``>``
what the observer asks, or how long it rests while nothing is asked; ``=`` effects. ``#`` lines stay
as they are.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gateway.base.address import Address
from gateway.quorum.effects import Effect, FailureKind, InstallSnapshot, Send
from gateway.quorum.settings import ObserverSettings, RaftSettings
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages import describe_quorum_response, fetch_response, fetch_snapshot_response
from kwire.messages.describe_cluster_response import DescribeClusterResponse
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.quorum.batches import corrupted, data_batch
from tests.gateway.quorum.observer.driven import Driven
from tests.gateway.quorum.observer.process import ModelLog, observer_settings
from tests.gateway.quorum.observer.words import effect_text, request_text

_READ = ("settings", "version", "log", "start", "+", "<", "!", "#", "")


def voter(id: int) -> Address:
    return Address(f"voter{id}", 9090 + id)


def replay(text: str) -> str:
    """The transcript as the observer makes it now."""
    script = _Script()
    for line in text.splitlines():
        word = line.split(" ")[0]
        if word in _READ:
            script.read(word, line)
    return "\n".join(script.written) + "\n"


class _Script:
    def __init__(self) -> None:
        self.written: list[str] = []
        self.version = 99
        self.settings: dict[str, Any] = {
            "bootstrap": (voter(1), voter(2), voter(3)),
            "cluster_id": "abc",
        }
        self.log = ModelLog()
        self.driven: Driven
        self.refused = False

    def read(self, word: str, line: str) -> None:
        self.written.append(line)
        given = dict(part.partition("=")[::2] for part in line.split()[1:])
        match word:
            case "settings":
                self.settings |= {name: _setting(name, value) for name, value in given.items()}
            case "version":
                self.version = int(line.split()[1])
            case "log":
                self._fill(line.split()[1:])
            case "+":
                self.driven.now += float(line.split()[1])
            case "start":
                self._start(given)
            case "<" | "!":
                self._answered(word, line.split()[1], given)

    def _fill(self, parts: list[str]) -> None:
        for part in parts:
            if part.startswith("snapshot="):
                self.log.truncate_to_snapshot(_snapshot_id(part[9:]))
            else:
                self.log.append(_records(part))

    def _start(self, given: dict[str, str]) -> None:
        settings = dict(self.settings)
        self.driven = Driven(
            observer_settings(settings.pop("bootstrap"), **settings),
            self.log,
            epoch=int(given.get("epoch", 0)),
            leader_id=int(given.get("leader", -1)),
            high_watermark=int(given.get("hw", 0)),
        )
        self.driven.spy = self._spy
        self.driven.install = self._install
        for send in self.driven.open:
            self._write_send(send)
        self._go_on()

    def _spy(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._write_send(effect)
        else:
            self.written.append(f"= {effect_text(effect)}")

    def _write_send(self, send: Send) -> None:
        version = min(self.version, send.versions[-1])
        self.written.append(f"> asks {send.address} {request_text(send.request(version), version)}")

    def _install(self, effect: InstallSnapshot) -> None:
        if self.refused:
            self.written.append("= ... which the log refuses")
            raise DecodeError("its CRC is wrong")
        self.log.truncate_to_snapshot(effect.id)

    def _answered(self, word: str, kind: str, given: dict[str, str]) -> None:
        assert self.driven.open, "nothing was asked"
        to = given.get("to")
        wanted = [send for send in self.driven.open if to is None or send.address == voter(int(to))]
        send = wanted[0]
        self.driven.now += 0.001
        self.refused = "refused" in given
        if word == "!":
            self.driven.answer(send, FailureKind(kind))
        else:
            version = min(self.version, send.versions[-1])
            made = _ANSWERS[kind](given)
            self.driven.answer(send, type(made).decode(made.encode(version), version), version)
        self._go_on()

    def _go_on(self) -> None:
        """While nothing is in flight time goes by, until something is asked."""
        if self.driven.stopped:
            self.written.append("> nothing any more")
            self.driven.open.clear()
            return
        was = self.driven.now
        while not self.driven.open:
            at = self.driven.raft.deadline
            assert at < float("inf")
            self.written.append(f"> rests {at - self.driven.now:.3f} s")
            assert self.driven.tick()
            assert self.driven.now - was < 60, "nothing is asked any more"


def _setting(name: str, value: str) -> Any:
    if name == "bootstrap":
        return tuple(voter(int(id)) for id in value.split(","))
    if name == "directory_id":
        return Uuid.parse(value)
    known = [*fields(ObserverSettings), *fields(RaftSettings)]
    kind = {field.name: str(field.type) for field in known}[name]
    if kind == "bool":
        return value == "yes"
    if kind in ("int", "float"):
        return float(value) if kind == "float" else int(value)
    return value or None


def _snapshot_id(text: str) -> SnapshotId:
    end, _, epoch = text.partition("-")
    return SnapshotId(int(end), int(epoch))


def _records(text: str) -> bytes:
    """``4-6@2,7-7@2``: batches from first to last offset, of an epoch."""
    data = b""
    for part in filter(None, text.split(",")):
        span, _, epoch = part.partition("@")
        first, _, last = span.partition("-")
        data += data_batch(int(first), int(last) - int(first) + 1, int(epoch), 0).data
    return data


def _error(given: dict[str, str], name: str) -> int:
    text = given.get(name, "0")
    return int(text) if text.lstrip("-").isdigit() else ErrorCode[text]


def _fetch_answer(given: dict[str, str]) -> Message:
    if "top" in given:
        return fetch_response.FetchResponse(error_code=_error(given, "top"))
    data = fetch_response.PartitionData(
        error_code=_error(given, "error"),
        high_watermark=int(given.get("hw", -1)),
        log_start_offset=int(given.get("start", 0)),
        records=corrupted(_records(given["records"]))
        if "corrupt" in given
        else _records(given.get("records", "")),
        aborted_transactions=[],
    )
    data.current_leader = fetch_response.LeaderIdAndEpoch(
        leader_id=int(given.get("leader", -1)), leader_epoch=int(given.get("epoch", -1))
    )
    if "diverging" in given:
        epoch, _, end = given["diverging"].partition(":")
        data.diverging_epoch = fetch_response.EpochEndOffset(epoch=int(epoch), end_offset=int(end))
    if "snapshot" in given:
        id = _snapshot_id(given["snapshot"])
        data.snapshot_id = fetch_response.SnapshotId(end_offset=id.end_offset, epoch=id.epoch)
    ids = [int(id) for id in given["nodes"].split(",")] if "nodes" in given else []
    nodes = [
        fetch_response.NodeEndpoint(node_id=id, host=voter(id).host, port=voter(id).port)
        for id in ids
    ]
    topic = fetch_response.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])
    return fetch_response.FetchResponse(responses=[topic], node_endpoints=nodes)


def _snapshot_answer(given: dict[str, str]) -> Message:
    if "top" in given:
        return fetch_snapshot_response.FetchSnapshotResponse(error_code=_error(given, "top"))
    id = _snapshot_id(given["id"])
    data = fetch_snapshot_response.PartitionSnapshot(
        error_code=_error(given, "error"),
        snapshot_id=fetch_snapshot_response.SnapshotId(end_offset=id.end_offset, epoch=id.epoch),
        current_leader=fetch_snapshot_response.LeaderIdAndEpoch(
            leader_id=int(given["leader"]), leader_epoch=int(given["epoch"])
        ),
        size=int(given.get("size", 0)),
        position=int(given.get("at", 0)),
        unaligned_records=given.get("bytes", "").encode(),
    )
    topic = fetch_snapshot_response.TopicSnapshot(name="__cluster_metadata", partitions=[data])
    return fetch_snapshot_response.FetchSnapshotResponse(topics=[topic])


def _quorum_answer(given: dict[str, str]) -> Message:
    if "error" in given:
        return describe_quorum_response.DescribeQuorumResponse(error_code=_error(given, "error"))
    replicas = [
        describe_quorum_response.ReplicaState(replica_id=int(id))
        for id in given["voters"].split(",")
    ]
    partition = describe_quorum_response.PartitionData(current_voters=replicas)
    topic = describe_quorum_response.TopicData(
        topic_name="__cluster_metadata", partitions=[partition]
    )
    return describe_quorum_response.DescribeQuorumResponse(topics=[topic])


def _cluster_answer(given: dict[str, str]) -> Message:
    return DescribeClusterResponse(
        error_code=_error(given, "error"), cluster_id=given.get("id", ""), endpoint_type=2
    )


_ANSWERS = {
    "fetch": _fetch_answer,
    "snapshot": _snapshot_answer,
    "quorum": _quorum_answer,
    "cluster": _cluster_answer,
}
