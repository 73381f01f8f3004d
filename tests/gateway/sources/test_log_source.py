"""Opening a log source: kinds of paths, the cluster id, and an error text for each bad path."""

from __future__ import annotations

import os
import re
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.ports.services import State
from gateway.sources import SourceError, open_log
from tests.gateway.log.kafka_files import KafkaLog
from tests.gateway.sources.reading import caught_up
from tests.shared import needs_shared

META = "version=1\ncluster.id=2df6cE7sSnWyxRvcxZGPwA\nnode.id=1\n"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A log directory with a metadata log of three records."""
    KafkaLog(tmp_path / "node" / "__cluster_metadata-0").append(3)
    (tmp_path / "node" / "meta.properties").write_text(META)
    return tmp_path / "node"


def test_every_form_of_the_path_is_the_same_log(node: Path) -> None:
    partition = node / "__cluster_metadata-0"
    segment = next(partition.glob("*.log"))
    (node.parent / "link").symlink_to(node)
    for path in (node, partition, segment, str(node), f"{node}/", node.parent / "link"):
        source = caught_up(open_log(path))
        assert (source.log_start_offset, source.high_watermark, source.state) == (0, 3, State.READY)
        assert source.cluster_id == "2df6cE7sSnWyxRvcxZGPwA"
        assert source.log_dir == str(node)


def test_a_partition_directory_with_another_name(node: Path) -> None:
    (node / "__cluster_metadata-0").rename(node / "copy-of-it")
    assert caught_up(open_log(node / "copy-of-it")).high_watermark == 3


@needs_shared
def test_real_nodes_name_their_cluster(logs: Any) -> None:
    node = logs("p-large") / "nodes" / "1"
    assert (
        open_log(node).cluster_id
        == open_log(node / "__cluster_metadata-0").cluster_id
        == "2df6cE7sSnWyxRvcxZGPwA"
    )


def test_without_meta_properties_the_cluster_id_is_made_of_the_path(
    node: Path, tmp_path: Path
) -> None:
    (node / "meta.properties").unlink()
    first, again = open_log(node).cluster_id, open_log(node / "__cluster_metadata-0").cluster_id
    assert first == again and re.fullmatch(r"[A-Za-z0-9_-]{22}", first)
    shutil.copytree(node, tmp_path / "other")
    assert open_log(tmp_path / "other").cluster_id != first


def test_nothing_is_written_or_locked(node: Path) -> None:
    def state() -> list[tuple[str, int, int]]:
        paths = sorted(node.glob("**/*"))
        return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]

    before = state()
    source = caught_up(open_log(node))
    source.read(0, 100).release()
    os.chmod(node / "__cluster_metadata-0", 0o500)
    caught_up(open_log(node))
    os.chmod(node / "__cluster_metadata-0", 0o700)
    assert state() == before


@pytest.mark.parametrize(
    ("spoil", "path", "sentence"),
    [
        (
            lambda node: None,
            "nowhere",
            "does not exist: give the __cluster_metadata-0 directory or its parent",
        ),
        (
            lambda node: (node / "empty").mkdir(),
            "empty",
            "holds no __cluster_metadata-0: give Kafka's metadata.log.dir",
        ),
        (
            lambda node: None,
            "meta.properties",
            "neither a directory nor a .log or .checkpoint file",
        ),
        (
            lambda node: (node / "meta.properties").write_text("version=9"),
            ".",
            "version 9 is not 0 or 1.*made-up cluster id",
        ),
        (
            lambda node: (node / "__cluster_metadata-0/partition.metadata").write_text(
                "version: 0\ntopic_id: zz"
            ),
            ".",
            "partition.metadata: not a Kafka uuid.*restore the file",
        ),
        (
            lambda node: (node / "__cluster_metadata-0/partition.metadata").write_text(
                "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n"
            ),
            ".",
            "names topic id AAAAAAAAAAAAAAAAAAAAAg; "
            "that of __cluster_metadata is AAAAAAAAAAAAAAAAAAAAAQ",
        ),
    ],
)
def test_a_path_that_will_not_do(node: Path, spoil: Any, path: str, sentence: str) -> None:
    spoil(node)
    with pytest.raises(SourceError, match=sentence) as error:
        open_log(node / path)
    assert str(node) in str(error.value)


def test_errors_of_the_system_are_sentences(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith(".log"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *arguments, **options)

    monkeypatch.setattr("kwire.metadata_log.open_file.os.open", refuse)
    with pytest.raises(
        SourceError, match=r"cannot read .*\.log: Permission denied; check its permissions"
    ):
        open_log(node)


@pytest.mark.parametrize("hard", [400, 100_000])
def test_many_segments_raise_the_limit_of_open_files_or_tell_it(
    hard: int, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hard limit is the most that the process may set; the true one is left as it is."""
    limits = [(300, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    partition = node / "__cluster_metadata-0"
    for number in range(1, 600):
        (partition / f"{number:020}.log").touch()
    if hard == 400:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(SourceError, match=r"600 segments to open.*may have 400.*ulimit -n\)?"):
            open_log(node)
        assert len(os.listdir("/proc/self/fd")) < before + 100
    else:
        assert open_log(node).log_dir == str(node)
    assert 300 < limits[-1][0] <= hard


def test_a_segment_that_goes_while_it_is_opened(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.open, []

    def gone_once(path: Any, *arguments: Any, **options: Any) -> int:
        # The patch holds for the whole process, thus other threads come here with other files.
        if str(path).startswith(str(node)) and str(path).endswith(".log"):
            calls.append(path)
            if len(calls) == 1:
                raise FileNotFoundError(2, "No such file or directory", path)
        return real(path, *arguments, **options)

    monkeypatch.setattr("kwire.metadata_log.open_file.os.open", gone_once)
    # A directory that was changed long ago is not listed again at every step.
    os.utime(node / "__cluster_metadata-0", (1, 1))
    source = caught_up(open_log(node))
    assert (source.state, source.high_watermark, len(calls)) == (State.READY, 3, 2)


def test_a_segment_that_cannot_be_opened_is_reported_and_tried_again(node: Path) -> None:
    source = caught_up(open_log(node))
    dangling = node / "__cluster_metadata-0" / f"{3:020d}.log"
    dangling.symlink_to(node / "nothing")
    caught_up(source)
    assert (source.state, source.high_watermark) == (State.STALE, 3)
    assert source.problem and source.problem.file == str(dangling)
    dangling.unlink()
    caught_up(source)
    assert source.state is State.READY
