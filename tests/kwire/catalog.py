"""Message classes for tests, per Kafka release: the committed ones, or generated on the spot where
a schema differed.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

import kwire
from kwire.codegen.generate import generate
from kwire.codegen.naming import snake
from kwire.message import Message, Struct

_OLDER = Path(__file__).resolve().parent.parent / "data"


@functools.cache
def _older(kafka: str) -> dict[str, str]:
    directory = _OLDER / f"schemas-{kafka}"
    return generate(directory) if directory.is_dir() else {}


@functools.cache
def message_class(name: str, kafka: str) -> type[Message]:
    """The class of message ``name`` as Kafka release ``kafka`` has it."""
    text = _older(kafka).get(f"{snake(name)}.py")
    if text is None:
        return kwire.message_type(name)
    module_name = f"generated_{kafka.replace('.', '_')}_{snake(name)}"
    spec = importlib.util.spec_from_loader(module_name, loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    exec(compile(text, module_name, "exec"), module.__dict__)
    cls = getattr(module, name)
    assert issubclass(cls, Message)
    return cls


@functools.cache
def by_key(kind: str, key: int, kafka: str) -> type[Message]:
    """The request or response class of an api key, as release ``kafka`` has it."""
    find = kwire.request_type if kind == "request" else kwire.response_type
    return message_class(find(key).NAME, kafka)


def every_struct(cls: type[Message]) -> list[type[Struct]]:
    """The message's class and those of all structs inside it."""
    found: list[type[Struct]] = [cls]
    for one in found:
        found += [
            inner
            for f in one.fields()
            if f.is_struct and (inner := one.struct_class(f.type)) not in found
        ]
    return found


__all__ = ["by_key", "every_struct", "message_class"]
