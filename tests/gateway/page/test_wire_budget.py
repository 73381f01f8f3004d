"""Few bytes that would become a large tree: its nodes and decompressed bytes are counted while it
is built, over all batches and frames.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.page import wire
from gateway.page.wire import BadInput, captured, dissected
from kwire.dissect import inside
from kwire.protocol import ApiKey
from kwire.records import Compression, compress, decode_batch
from kwire.reference import reference
from kwire.reference.parse_trace import Node
from tests.gateway.cli.dissect_runs import request, run
from tests.kwire.records.raw import raw_batch, raw_record
from tests.kwire.reference.pcaps import on_link, pcap, talk

#: The metadata record NoOpRecord, whose tree has a node for each of its parts.
NO_OP = b"\x01\x14\x00\x00"


class Counts:
    """Nodes that were made, and bytes of the records that were decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, nodes_max: int) -> None:
        self.nodes = self.record_bytes = 0
        make, decode = Node.__init__, decode_batch

        def counted(node: Node, *args: Any, **kwargs: Any) -> None:
            self.nodes += 1
            assert self.nodes <= nodes_max, "too many nodes were made"
            make(node, *args, **kwargs)

        def decoded(*args: Any, **kwargs: Any) -> Any:
            batch = decode(*args, **kwargs)
            self.record_bytes += sum(len(record.value or b"") for record in batch.records)
            return batch

        monkeypatch.setattr(Node, "__init__", counted)
        monkeypatch.setattr(inside, "decode_batch", decoded)


def batch(records: int, value: bytes | None = None) -> bytes:
    """A batch that is small: its records have one offset, which readers take."""
    payload = compress(Compression.ZSTD, records * raw_record(value=value))
    return raw_batch(payload, records, attributes=Compression.ZSTD)


def produce(*batches: bytes) -> bytes:
    """A Produce request with a partition for each of ``batches``."""
    partitions = [{"Index": n, "Records": one} for n, one in enumerate(batches)]
    return request(
        "ProduceRequest", 9, {"Acks": 1, "TopicData": [{"Name": "t", "PartitionData": partitions}]}
    )


@pytest.mark.parametrize(
    ("batches", "says"),
    [
        ([batch(1_000_000)], "decompresses to more than"),
        ([batch(140_000)], "140000 records, more than"),
        ([b"".join(9 * [batch(2000)])], "2000 records, more than"),
        (60 * [batch(1700)], None),
        (60 * [batch(900, NO_OP)], None),
    ],
    ids=["bytes", "records", "batches of a partition", "batches", "metadata records"],
)
def test_tree_that_is_too_large_is_never_built(
    batches: list[bytes], says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = produce(*batches)
    assert len(frame) < wire.BYTES_MAX
    Counts(monkeypatch, wire.NODES_MAX + 100)
    asked = {"hex": frame.hex(), "kind": "request"}
    if says is None:
        with pytest.raises(BadInput, match="kwire dissect"):
            dissected(asked)
    else:
        assert says in str(dissected(asked))


def test_page_refuses_batches_that_decompress_to_too_many_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = produce(*5 * [batch(1, bytes(300_000))])
    assert len(frame) < wire.BYTES_MAX
    counts = Counts(monkeypatch, wire.NODES_MAX)
    assert "decompress" in str(dissected({"hex": frame.hex(), "kind": "request"}))
    assert counts.record_bytes <= wire.DECOMPRESSED_BYTES_MAX


def test_trees_of_a_capture_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [produce(batch(900)) for _ in range(50)]
    turns = [(">", len(one).to_bytes(4, "big") + one) for one in frames]
    data = pcap([on_link(1, packet) for packet in talk(*turns)])
    assert len(data) < wire.CAPTURE_BYTES_MAX
    Counts(monkeypatch, wire.NODES_MAX + 100)
    found = captured(data)
    assert found["more"] and 1 <= len(found["frames"]) < 5


def test_command_ends_the_tree_of_a_few_bytes_where_its_budget_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = produce(*30 * [batch(20_000)])
    Counts(monkeypatch, 110_000 + 20 * len(frame))
    result = run("--hex", frame.hex(), "--records", "-o", "json")
    assert result.exit_code == 1 and "element-budget" in result.output


def test_batches_behind_one_that_fails_are_still_shown() -> None:
    damaged = bytearray(batch(3, NO_OP))
    damaged[-1] ^= 1
    found = dissected({"hex": produce(bytes(damaged), batch(3, NO_OP)).hex(), "kind": "request"})
    assert not found["ok"] and str(found).count("NoOpRecord") == 3


def test_the_tree_of_an_ordinary_request_is_whole() -> None:
    assert reference("ProduceRequest", 9).schema["apiKey"] == ApiKey.PRODUCE
    found = dissected({"hex": produce(batch(100, NO_OP)).hex(), "kind": "request"})
    assert found["ok"] and str(found).count("NoOpRecord") == 100
