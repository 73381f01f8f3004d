"""Wraps other libraries' codecs in one shape: decode bytes to an object, encode that object again.

A peer that is not installed is left out; the extra ``bench`` has all of them.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kwire import Message
from kwire.codegen.naming import snake

_KAFKA_PYTHON_MODULES = ("kafka.protocol.metadata", "kafka.protocol.consumer")


@dataclass(frozen=True)
class Codec:
    """The codec of one library for one message at one version."""

    name: str
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]


def own_codec(message: type[Message], version: int) -> Codec:
    return Codec(
        "kwire", lambda data: message.decode(data, version), lambda value: value.encode(version)
    )


def peers(message: type[Message], version: int, names: Sequence[str]) -> Iterator[Codec]:
    """Return the codecs of the named libraries that are installed and know the message."""
    makers = {"kafka-python": _kafka_python, "kio": _kio, "aiokafka": _aiokafka}
    for name in names:
        try:
            yield makers[name](message.NAME, version)
        except ImportError:
            continue


def _kafka_python(name: str, version: int) -> Codec:
    for module in _KAFKA_PYTHON_MODULES:
        if cls := getattr(importlib.import_module(module), name, None):
            return Codec(
                "kafka-python",
                lambda data: cls.decode(data, version=version),
                lambda value: value.encode(),
            )
    raise ImportError(f"kafka-python has no {name}")


def _kio(name: str, version: int) -> Codec:
    serial = importlib.import_module("kio.serial")
    kind = "request" if name.endswith("Request") else "response"
    folder = snake(name.removesuffix("Request").removesuffix("Response"))
    cls = getattr(importlib.import_module(f"kio.schema.{folder}.v{version}.{kind}"), name)
    read, write = serial.entity_reader(cls), serial.entity_writer(cls)

    def encode(value: Any) -> bytes:
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    return Codec("kio", lambda data: read(data, 0)[0], encode)


def _aiokafka(name: str, version: int) -> Codec:
    module = "metadata" if name.startswith("Metadata") else "fetch"
    cls = getattr(importlib.import_module(f"aiokafka.protocol.{module}"), f"{name}_v{version}")
    return Codec(
        "aiokafka", lambda data: cls.decode(io.BytesIO(data)), lambda value: bytes(value.encode())
    )
