"""Checks a log after a crash or a failure: it has kept its promises, and its files agree."""

from __future__ import annotations

from gateway.log.metadata.local_log import LocalLog
from gateway.log.reading.follower import DirectoryFollower
from gateway.log.segments.segment_scan import scan_segment
from tests.gateway.log.workload import SMALL, Promise, content_of


def keeps(log: LocalLog, promise: Promise, written: dict[tuple[int, int], bytes]) -> None:
    assert log.end_offset >= promise.end_offset
    assert log.high_watermark >= promise.high_watermark
    assert log.start_offset in promise.starts
    state = log.quorum_state
    assert (state[1].leader_epoch if state else None) in promise.leader_epochs
    assert log.meta_properties is not None or not promise.has_meta
    content = content_of(log)
    for offset, data in content:
        epoch = int.from_bytes(data[12:16], "big")
        assert written[offset, epoch] == data, "what is there was written there"
    kept = dict(content)
    for offset, data in promise.log:
        if log.start_offset <= offset < promise.end_offset:
            assert kept[offset] == data
    expected = content[0][0] if content else log.start_offset
    for offset, data in content:
        assert offset == expected
        expected = offset + int.from_bytes(data[23:27], "big") + 1
    assert expected == log.end_offset


def agrees_with_itself(log: LocalLog) -> None:
    """Epochs and indexes are what a reading of all segments gives."""
    epochs: list[tuple[int, int]] = []
    for path in sorted(log.directory.glob("*.log")):
        scan = scan_segment(log.directory, int(path.stem), SMALL.index_interval_bytes, 0)
        assert scan.size == scan.file_size
        epochs += [entry for entry in scan.epochs if not epochs or entry[0] > epochs[-1][0]]
        index = path.with_suffix(".index").read_bytes()
        assert index == scan.index.offset_bytes()
        times = scan.index.time_bytes()
        scan.index.add_latest_time()
        assert path.with_suffix(".timeindex").read_bytes() in (times, scan.index.time_bytes())
    for epoch in range(-1, 11):
        at = max((number for number, entry in enumerate(epochs) if entry[0] <= epoch), default=-1)
        found = log.end_offset_for_epoch(epoch)
        if epochs and epoch >= 0 and epoch <= epochs[-1][0] and at >= 0:
            end = epochs[at + 1][1] if at + 1 < len(epochs) else log.end_offset
            if end > log.start_offset:
                assert found == (epochs[at][0], end)
    if epochs:
        assert log.last_epoch == epochs[-1][0]


def follows(follower: DirectoryFollower, log: LocalLog) -> None:
    """A follower that saw the directory before sees it as it is now."""
    follower.rescan()
    while follower.step():
        pass
    chain = follower.view
    assert chain is not None
    assert chain.broken is None
    assert (chain.end_offset, chain.epoch) == (log.end_offset, log.last_epoch)
    prefix = chain.slices[0].shift != 0 if chain.slices else False
    assert (chain.slices[0].end_offset if prefix else chain.start_offset) == log.start_offset
