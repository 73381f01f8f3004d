"""The views of logs that real Kafka wrote: at any offset they are the image, at every node the same
records, and without secrets.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gateway.ports.view_topics import CHANGES, VIEWS
from gateway.views.encode import ViewEncoder
from gateway.views.schemas import headers_schema, json_schema
from kwire.cluster import Loader
from kwire.cluster import view_offsets as offsets
from kwire.cluster.image import Image
from kwire.cluster.view_records import COMPLETE_HEADER, SNAPSHOT_HEADER
from kwire.errors import DecodeError
from kwire.records import Record, decode_metadata_record
from kwire.records.batch import decode_batch, decode_batches
from kwire.records.redact import is_secret_config
from tests.gateway.views.view_reading import (
    ALL_BUT_CHANGES,
    CLUSTER_ID,
    KnownPartitions,
    Table,
    is_marker,
    of_changes,
    opened,
    pieces,
    served,
    state,
    take,
    take_change,
    take_last_change,
    view_records,
)
from tests.shared import LOG_NAMES, needs_shared

pytestmark = needs_shared

_DIRECTORY = "__cluster_metadata-0"
#: Offsets at which a view is compared with the image; in a log with a large image.
_OFFSETS, _OFFSETS_OF_LARGE = 100, 12


def directories(logs: Any, name: str) -> list[Path]:
    return sorted((logs(name) / "nodes").glob("*/__cluster_metadata-0"))


def images(directory: Path, wanted: set[int]) -> Iterator[tuple[int, Image]]:
    """The image before each wanted offset at which a batch ends, by the fold of the library."""
    log, loader = opened(directory), Loader()
    at = log.log_start_offset
    while at < log.high_watermark:
        for batch in decode_batches(served(log, at)):
            for record in () if batch.header.is_control else batch.records:
                try:
                    _, _, message = decode_metadata_record(record.value or b"")
                except DecodeError:
                    continue
                epoch = batch.header.partition_leader_epoch
                loader.load(message, record.offset, epoch, refused=lambda error: None)
            at = batch.header.next_offset
            if at in wanted:
                yield at, loader.image


@pytest.mark.parametrize("name", LOG_NAMES)
def test_a_view_is_the_image_at_random_offsets_and_holds_no_secret(logs: Any, name: str) -> None:
    chance = random.Random(name)
    for directory in directories(logs, name):
        log = opened(directory)
        ends = {
            batch.header.next_offset
            for piece in _reads(directory)
            for batch in decode_batches(piece)
            if batch.header.next_offset >= max(log.snapshot_end, 1)
        }
        most = _OFFSETS_OF_LARGE if name == "p-large" else _OFFSETS
        wanted = {*chance.sample(sorted(ends), min(most, len(ends))), log.high_watermark}
        expected, secrets = images(directory, wanted), _secrets(directory)
        tables: dict[str, Table] = {view: {} for view in VIEWS}
        changed, last = dict[str, Table](), dict[bytes | None, Record]()
        known: KnownPartitions = {}
        changes = _changes(directory)
        pending = next(changes, None)
        for end, image in expected:
            encoded = list[bytes]()
            while pending is not None and pending[1].offset < offsets.at(end):
                view, record = pending
                encoded += record.key or b"", record.value or b""
                if view != CHANGES:
                    take(tables[view], record)
                elif name == "p-large":  # to read all of its changes takes half a minute
                    last[record.key] = record
                else:
                    take_change(changed, record)
                pending = next(changes, None)
            text = b"\n".join(encoded)
            assert not [secret for secret in secrets if secret in text], (directory, end)
            shown = {view: tables[view] for view in VIEWS if view != CHANGES}
            assert shown == state(image, known), (directory, end)
            assert name == "p-large" or of_changes(changed) == shown, (directory, end)
        for record in last.values():
            take_last_change(changed, record)
        assert of_changes(changed) == shown, directory


def _reads(directory: Path) -> Iterator[bytes]:
    log = opened(directory)
    at = log.log_start_offset
    while at < log.high_watermark:
        data = served(log, at)
        yield data
        at = max(batch.header.next_offset for batch in decode_batches(data))


def _changes(directory: Path) -> Iterator[tuple[str, Record]]:
    """Every record of every view with its view, in the order of offsets."""
    encoder = ViewEncoder(CLUSTER_ID)
    for piece in pieces(opened(directory)):
        for change in piece.changes:
            yield CHANGES, encoder.record(CHANGES, change)
            if change.kind.view is not None:
                yield change.kind.view, encoder.record(change.kind.view, change)


@pytest.mark.parametrize("name", ["p-quorum", "p-quorum-short"])
def test_nodes_with_other_starts_have_the_same_records(logs: Any, name: str) -> None:
    """The nodes began at offset 0 or at snapshots of different offsets."""
    starts = set()
    known: dict[int, tuple[bytes | None, bytes | None, int]] = {}
    compared = 0
    for directory in directories(logs, name):
        log = opened(directory)
        starts.add(log.snapshot_end)
        for record in view_records(log, CHANGES):
            shown = record.key, record.value, record.timestamp
            compared += record.offset in known
            assert known.setdefault(record.offset, shown) == shown, (directory, record.offset)
    assert len(starts) > 1 and compared > 1000
    # From the later start on, a node has every record that another one has.
    ends = {}
    for directory in directories(logs, name):
        log = opened(directory)
        ends[directory] = offsets.at(log.snapshot_end), offsets.at(log.high_watermark)
    for directory, (start, end) in ends.items():
        own = {record.offset for record in view_records(opened(directory), CHANGES)}
        others = {offset for offset in known if start <= offset < end and _is_change(offset)}
        assert {offset for offset in own if offset >= start} == others, directory


@pytest.mark.parametrize("name", [one for one in LOG_NAMES if one != "p-large"])
def test_each_view_says_once_that_the_snapshot_of_the_log_is_complete(logs: Any, name: str) -> None:
    for directory in directories(logs, name)[:2]:
        log = opened(directory)
        found = [
            (record.offset, dict(record.headers)[SNAPSHOT_HEADER])
            for piece in pieces(log)
            for view in VIEWS
            for batch in ViewEncoder(CLUSTER_ID).batches(view, piece.changes, piece.complete)
            for record in decode_batch(batch.data).records
            if is_marker(record)
        ]
        epoch = log.epoch_at(log.snapshot_end - 1)
        marker = offsets.of_complete(log.snapshot_end), f"{log.snapshot_end}-{epoch}".encode()
        assert found == (len(VIEWS) * [marker] if log.snapshot_end else []), directory


def test_reader_whose_position_is_below_the_log_finds_what_is_gone(logs: Any) -> None:
    """It reads one server up to a random offset, goes on at another one whose log begins with a
    later snapshot, and at the end of that snapshot drops what it was not told again.
    """
    whole, part = (opened(logs("p-quorum") / f"nodes/{node}/{_DIRECTORY}") for node in (3, 4))
    ((_, image),) = images(logs("p-quorum") / f"nodes/4/{_DIRECTORY}", {part.high_watermark})
    chance, expected, swept = random.Random(5), state(image), set[str]()
    for view in ALL_BUT_CHANGES:
        before, after = view_records(whole, view), view_records(part, view)
        for _ in range(10):
            stop = chance.randrange(offsets.of_snapshot(part.snapshot_end))
            read = [record for record in before if record.offset < stop] + after
            table = dict[bytes | None, Record]()
            for record in read:
                if is_marker(record):
                    first = int(dict(record.headers)[COMPLETE_HEADER] or b"")
                    gone = {key for key, one in table.items() if one.offset < first}
                    table = {key: one for key, one in table.items() if key not in gone}
                    swept |= {view} if gone else set()
                elif record.value is None:
                    table.pop(record.key, None)
                else:
                    table[record.key] = record
            shown = {(k or b"").decode(): (one.value or b"").decode() for k, one in table.items()}
            assert shown == expected[view], (view, stop)
    assert swept >= {"topics", "partitions"}


@pytest.mark.parametrize("name", ["p-one-basic", "p-quorum", "p-upgrade", "p-old", "p-abort"])
def test_topics_change_once_a_batch_and_behind_all_its_other_changes(logs: Any, name: str) -> None:
    """So the offsets of all other changes are those that their records alone give them."""
    created = 0
    for directory in directories(logs, name):
        ends = {
            offset: batch.header.next_offset - 1
            for piece in _reads(directory)
            for batch in decode_batches(piece)
            for offset in range(batch.header.base_offset, batch.header.next_offset)
        }
        numbers, told = Counter[int](), dict[tuple[int, str], Any]()
        made = [one for piece in pieces(opened(directory)) for one in piece.changes]
        changes = [one for one in made if one.op != "r"]
        for shaped in (False, True):
            for change in changes:
                if (change.kind.kind == "topic" and change.op == "u") != shaped:
                    continue
                at = offsets.log_offset(change.offset)
                assert change.offset == offsets.at(at) + numbers[at], (directory, at)
                numbers[at] += 1
                if shaped:
                    value = change.kind.fields(change.after)
                    assert at == ends[at] and (at, value["name"]) not in told, (directory, at)
                    told[at, value["name"]] = value
        topics: list[tuple[int, str, Any]] = [
            (ends[offsets.log_offset(one.offset)], one.op, one.after or one.before)
            for one in changes
            if one.kind.kind == "topic"
        ]
        deleted = {(end, topic[1]) for end, op, topic in topics if op == "d"}
        for end, op, topic in topics:
            if op == "c" and (end, topic[1]) not in deleted:
                value = told[end, topic[0]]
                assert value["partitions"] > 0 and value["replicationFactor"] > 0, (directory, end)
                created += 1
    assert created > 0


def _is_change(offset: int) -> bool:
    return offset % offsets.at(1) < offsets.CHANGES_MAX


def _secrets(directory: Path) -> set[bytes]:
    found = set()
    for data in _reads(directory):
        for batch in decode_batches(data):
            for record in () if batch.header.is_control else batch.records:
                try:
                    name, version, message = decode_metadata_record(record.value or b"")
                except DecodeError:
                    continue
                shown: Any = message.to_json(version)
                if name == "USER_SCRAM_CREDENTIAL_RECORD":
                    for member in ("salt", "stored_key", "server_key"):
                        found.add(getattr(message, member).hex().encode())
                    found |= {shown[one].encode() for one in ("salt", "storedKey", "serverKey")}
                elif (
                    name == "CONFIG_RECORD"
                    and shown["value"] is not None
                    and is_secret_config(shown["resourceType"], shown["name"])
                ):
                    found.add(json.dumps(shown["value"])[1:-1].encode())
    return {secret for secret in found if not secret.isdigit()}  # a quota may be that number


@pytest.mark.parametrize("name", ["p-one-basic", "p-quorum-short", "p-upgrade", "p-old"])
def test_every_record_conforms_to_the_published_schema(logs: Any, name: str) -> None:
    log = opened(directories(logs, name)[0])
    for view in VIEWS:
        key, value = (
            jsonschema.Draft202012Validator(json_schema(view, key=part)) for part in (True, False)
        )
        headers = jsonschema.Draft202012Validator(headers_schema(view))
        for record in view_records(log, view):
            headers.validate({name: (one or b"").decode() for name, one in record.headers})
            key.validate(json.loads(record.key or b""))
            if record.value is not None:
                value.validate(json.loads(record.value))


def test_a_secret_that_was_set_shows_as_redacted(logs: Any) -> None:
    """The search for secrets would find nothing in logs without any."""
    assert _secrets(directories(logs, "p-quorum")[0])
    users = view_records(opened(directories(logs, "p-quorum")[0]), "users")
    values = [json.loads(one.value) for one in users if one.value is not None]
    assert values and all(value["salt"] == "(redacted)" for value in values)
