"""``kwire.read``, ``kwire.image`` and ``kwire.follow``, as Python programs call them."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kwire
from kwire.cluster.shell_view import entities
from kwire.messages.topic_record import TopicRecord
from kwire.metadata_log.file_names import segment_name
from kwire.records import iter_batches
from tests.documented import blocks
from tests.gateway.handlers.mini_server import MiniServer, serving
from tests.shared import LOG_NAMES, needs_shared

SAMPLE = Path(__file__).resolve().parents[3] / "gateway" / "sample"
SEGMENT = SAMPLE / "__cluster_metadata-0" / segment_name(0)


def test_records_of_a_directory_and_of_its_segment_are_the_same() -> None:
    records = list(kwire.read(SAMPLE))
    assert records == list(kwire.read(str(SEGMENT))) == list(kwire.read(SEGMENT.parent))
    assert [record.offset for record in records] == list(range(len(records)))
    assert records[0].is_control and records[0].type == "LEADER_CHANGE"


def test_message_of_a_record_is_the_decoded_class() -> None:
    topics = [
        record.message.name
        for record in kwire.read(SAMPLE)
        if isinstance(record.message, TopicRecord)
    ]
    assert set(topics) >= set(kwire.image(SAMPLE).topic_ids)


def test_cut_end_of_the_log_ends_the_iteration_with_a_warning(tmp_path: Path) -> None:
    whole = SEGMENT.read_bytes()
    (tmp_path / segment_name(0)).write_bytes(whole[:-1])
    with pytest.warns(kwire.MetadataLogWarning, match="ends inside a batch"):
        records = list(kwire.read(tmp_path))
    assert 0 < len(records) < len(list(kwire.read(SAMPLE)))
    with pytest.warns(kwire.MetadataLogWarning, match="ends inside a batch"):
        assert kwire.image(tmp_path).next_offset == len(records)


def test_damage_inside_the_log_raises_with_the_file(tmp_path: Path) -> None:
    whole = bytearray(SEGMENT.read_bytes())
    second = next(itertools.islice(iter_batches(bytes(whole)), 1, None))
    whole[second.position + second.size - 1] ^= 0xFF
    (tmp_path / segment_name(0)).write_bytes(whole)
    with pytest.raises(kwire.WireError, match=segment_name(0)):
        list(kwire.read(tmp_path))


def test_cut_end_of_an_older_segment_raises(tmp_path: Path) -> None:
    whole = SEGMENT.read_bytes()
    (tmp_path / segment_name(0)).write_bytes(whole[:-1])
    (tmp_path / segment_name(10**6)).write_bytes(b"")
    with pytest.raises(kwire.WireError, match=segment_name(0)):
        list(kwire.read(tmp_path))


def test_directory_without_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        next(kwire.read(tmp_path))


def test_image_at_an_offset_a_time_and_their_texts_is_the_same() -> None:
    record = next(one for one in kwire.read(SAMPLE) if isinstance(one.message, TopicRecord))
    later = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    by_time = kwire.image(SAMPLE, at=later)
    assert kwire.image(SAMPLE, at=record.timestamp) == by_time
    assert kwire.image(SAMPLE, at=later.isoformat()) == by_time
    assert kwire.image(SAMPLE, at=by_time.next_offset) == by_time
    assert kwire.image(SAMPLE, at=str(by_time.next_offset)) == by_time
    assert isinstance(record.message, TopicRecord)
    assert record.message.name in by_time.topic_ids


def test_image_past_the_end_is_refused() -> None:
    with pytest.raises(kwire.MetadataLogError, match="ends at offset"):
        kwire.image(SAMPLE, at=10**6)


def test_image_before_damage_can_be_had(tmp_path: Path) -> None:
    shutil.copy(SEGMENT, tmp_path)
    with (tmp_path / SEGMENT.name).open("r+b") as file:
        file.seek(20_000)
        file.write(b"\xff" * 8)
    with pytest.raises(kwire.MetadataLogError) as failure:
        kwire.image(tmp_path)
    assert failure.value.intact_before is not None
    before = kwire.image(tmp_path, at=failure.value.intact_before)
    assert before == kwire.image(SAMPLE, at=failure.value.intact_before)


@needs_shared
@pytest.mark.parametrize("name", [name for name in LOG_NAMES if name != "p-large"])
def test_every_node_of_kafka_reads_whole(name: str, logs: Callable[[str], Path]) -> None:
    for node in (logs(name) / "nodes").iterdir():
        offsets = [record.offset for record in kwire.read(node)]
        assert offsets == sorted(set(offsets))
        assert kwire.image(node).next_offset == offsets[-1] + 1


@pytest.fixture(scope="module")
def server() -> Iterator[MiniServer]:
    with serving() as server:
        yield server


def test_followed_records_are_those_of_the_files_without_control_records(
    server: MiniServer,
) -> None:
    where = f"127.0.0.1:{server.port}"
    followed = list(kwire.follow(where, until_end=True))
    assert followed == [record for record in kwire.read(SAMPLE) if not record.is_control]
    some = list(itertools.islice(kwire.follow(where, start=followed[5].offset), 3))
    assert some == followed[5:8]


def test_follower_at_an_offset_past_the_end_is_refused(server: MiniServer) -> None:
    with pytest.raises(kwire.MetadataLogError, match="is not between 0 and"):
        next(kwire.follow(f"127.0.0.1:{server.port}", start=10**6))


def test_image_of_followed_records_is_that_of_the_files(server: MiniServer) -> None:
    from kwire.cluster import Loader

    loader = Loader()
    for record in kwire.follow(f"127.0.0.1:{server.port}", until_end=True):
        assert record.message is not None
        loader.load(record.message, record.offset, record.epoch)
    assert dict(entities(loader.image)) == dict(entities(kwire.image(SAMPLE)))


def test_programs_of_the_page_python_md_run_and_print_what_it_shows(
    server: MiniServer, capsys: pytest.CaptureFixture[str]
) -> None:
    page = [block for block in blocks() if block.page == "docs/python.md"]
    names: dict[str, object] = {}
    for block in page:
        if block.language == "python":
            text = block.text.replace("127.0.0.1:9092", f"127.0.0.1:{server.port}")
            exec(compile(text, f"{block.page}:{block.line}", "exec"), names)
    [shown] = [block.text for block in page if not block.language]
    assert capsys.readouterr().out.startswith(shown)
