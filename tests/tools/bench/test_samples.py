"""The benches time the same work: every library reads kwire's bytes and writes them back, and the
long log has the stated batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kwire.records.header import iter_batches
from tests.shared import needs_shared
from tools.bench import largelog
from tools.bench.messages import Sample, samples
from tools.bench.peers import own_codec, peers

_CASES: list[tuple[Sample, tuple[str, ...]]] = [
    (sample, ("kafka-python", "kio")) for sample in samples(flexible=True)
]
_CASES += [(sample, ("aiokafka",)) for sample in samples(flexible=False)]


@pytest.mark.parametrize(
    ("sample", "names"), _CASES, ids=lambda case: case.title if isinstance(case, Sample) else ""
)
def test_the_libraries_agree_on_the_bytes(sample: Sample, names: tuple[str, ...]) -> None:
    data = sample.message.encode(sample.version)
    codecs = [
        own_codec(type(sample.message), sample.version),
        *peers(type(sample.message), sample.version, names),
    ]
    assert len(codecs) > 1, "no other library is installed"
    for codec in codecs:
        assert codec.encode(codec.decode(data)) == data, codec.name


@needs_shared
def test_the_long_log_repeats_the_batches_at_growing_offsets(logs: Any, tmp_path: Path) -> None:
    node = logs("p-one-basic") / "nodes/1"
    batches = largelog.data_batches(node)
    assert sum(batch.records for batch in batches) == 1052
    long_log = largelog.repeated(node, batches, 3, tmp_path / "long")
    data = (long_log / "__cluster_metadata-0/00000000000000000000.log").read_bytes()
    headers = list(iter_batches(data, check_crc=True))
    assert len(headers) == 3 * len(batches)
    assert headers[-1].end == len(data)
    assert [header.base_offset for header in headers[1:]] == [
        header.next_offset for header in headers[:-1]
    ]
    assert not any(header.is_control for header in headers)
