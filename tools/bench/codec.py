"""Measures messages: encode and decode beside kafka-python, kio and aiokafka, and the cost of
imports.

It compares the bytes first. kio decodes in compiled Rust: its bar says how near pure Python comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.bench.measure import import_cost, microseconds
from tools.bench.messages import Sample, samples
from tools.bench.peers import Codec, own_codec, peers

#: (peer, direction) -> how many times faster kwire must be; Fetch is mostly the copying of bytes
#: and has bars of its own.
_BARS = {
    ("kafka-python", "decode"): 2.2,
    ("kafka-python", "encode"): 4.0,
    ("kio", "decode"): 0.45,
    ("kio", "encode"): 7.0,
}
_FETCH_BARS = {("kafka-python", "decode"): 1.4}
_ROOT = str(Path(__file__).resolve().parent.parent.parent)

_ALL_OF_KWIRE = "import kwire; [kwire.message_type(name) for name in kwire.message_names()]"
_ALL_OF_KIO = """
import importlib, pkgutil, kio.schema
for module in pkgutil.walk_packages(kio.schema.__path__, "kio.schema."):
    importlib.import_module(module.name)
"""
_ALL_OF_KAFKA_PYTHON = """
import importlib, pkgutil, kafka.protocol
for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
    if ".old" not in module.name and "generate_stubs" not in module.name:
        importlib.import_module(module.name)
"""


def run() -> list[dict[str, Any]]:
    """Return the rows of every message against every peer that has it, then those of imports."""
    rows: list[dict[str, Any]] = []
    for sample in samples(flexible=True):
        rows += _message(sample, ("kafka-python", "kio"))
    for sample in samples(flexible=False):
        rows += _message(sample, ("aiokafka",))
    return [*rows, *_imports()]


def _message(sample: Sample, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    data = sample.message.encode(sample.version)
    own = own_codec(type(sample.message), sample.version)
    codecs = [own, *peers(type(sample.message), sample.version, names)]
    values = {codec.name: codec.decode(data) for codec in codecs}
    for codec in codecs:
        if codec.encode(values[codec.name]) != data:
            raise AssertionError(f"{codec.name} reads {sample.title} otherwise than it is written")
    decoded = microseconds({codec.name: _decoder(codec, data) for codec in codecs})
    encoded = microseconds({codec.name: _encoder(codec, values[codec.name]) for codec in codecs})
    for direction, timings in (("decode", decoded), ("encode", encoded)):
        for codec in codecs[1:]:
            peer_time, own_time = timings[codec.name], timings[own.name]
            yield {
                "what": f"{direction} {sample.title}",
                "unit": "µs",
                "kwire": own_time,
                "peer": codec.name,
                "peer_value": peer_time,
                "ratio": peer_time / own_time,
                "bar": _bar(sample, codec.name, direction),
                "bytes": len(data),
            }


def _decoder(codec: Codec, data: bytes) -> Any:
    return lambda: codec.decode(data)


def _encoder(codec: Codec, value: Any) -> Any:
    return lambda: codec.encode(value)


def _bar(sample: Sample, peer: str, direction: str) -> float | None:
    if sample.title.startswith("Fetch"):
        return _FETCH_BARS.get((peer, direction), _BARS.get((peer, direction)))
    return _BARS.get((peer, direction))


def _imports() -> Iterator[dict[str, Any]]:
    alone_ms, alone_mib = import_cost("import kwire", path=[_ROOT])
    yield {
        "what": "import kwire alone",
        "unit": "ms",
        "kwire": alone_ms,
        "ok": alone_ms < 15,
        "notes": "below 15 ms",
        "MiB": alone_mib,
    }
    all_ms, all_mib = import_cost(_ALL_OF_KWIRE, path=[_ROOT])
    for peer, statement, bars in (
        ("kio", _ALL_OF_KIO, (10.0, 2.0)),
        ("kafka-python", _ALL_OF_KAFKA_PYTHON, (None, None)),
    ):
        peer_ms, peer_mib = import_cost(statement)
        yield {
            "what": "import every message",
            "unit": "ms",
            "kwire": all_ms,
            "peer": peer,
            "peer_value": peer_ms,
            "ratio": peer_ms / all_ms,
            "bar": bars[0],
        }
        yield {
            "what": "import every message, memory",
            "unit": "MiB",
            "kwire": all_mib,
            "peer": peer,
            "peer_value": peer_mib,
            "ratio": peer_mib / all_mib,
            "bar": bars[1],
        }
