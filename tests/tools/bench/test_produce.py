"""The requests of the bench of the data path."""

from __future__ import annotations

from kwire.header import decode_request_header
from kwire.messages.produce_request import ProduceRequest
from kwire.records import decode_batch
from tools.bench.data_servers import frame_of
from tools.bench.produce import batch_of


def test_batch_is_nearly_as_large_as_asked_for_and_has_so_many_records() -> None:
    for size, record in ((1, 100), (16_384, 100), (262_144, 1000)):
        data, count = batch_of(size, record, 1_700_000_000_000)
        assert len(decode_batch(data).records) == count
        assert count == 1 or 0.97 * size < len(data) <= size


def test_frame_is_a_request_behind_its_length() -> None:
    frame = frame_of(ProduceRequest(acks=1, timeout_ms=7), 9)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    header, at = decode_request_header(frame[4:])
    assert (header.request_api_key, header.request_api_version) == (0, 9)
    assert ProduceRequest.decode(frame[4 + at :], 9).timeout_ms == 7
