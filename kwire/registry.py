"""Finds message classes by name or number. A message's module is imported on first use, nothing
before.
"""

from __future__ import annotations

import functools
import importlib
from typing import cast

from kwire.errors import UnknownApi
from kwire.message import Message
from kwire.messages import BY_KEY, MODULES


@functools.cache
def message_type(name: str) -> type[Message]:
    """The class of schema ``name``, such as ``FetchRequest``. Raises UnknownApi."""
    module = MODULES.get(name)
    if module is None:
        raise UnknownApi(f"no message is named {name!r}")
    return cast(type[Message], getattr(importlib.import_module(f"kwire.messages.{module}"), name))


def request_type(api_key: int) -> type[Message]:
    """The request class of an api key. Raises UnknownApi."""
    return _by_key("request", api_key)


def response_type(api_key: int) -> type[Message]:
    """The response class of an api key. Raises UnknownApi."""
    return _by_key("response", api_key)


def record_type(api_key: int) -> type[Message]:
    """The class of a metadata record type (``MetadataRecordType``). Raises UnknownApi."""
    return _by_key("metadata", api_key)


@functools.cache
def _by_key(kind: str, api_key: int) -> type[Message]:
    name = BY_KEY.get((kind, api_key))
    if name is None:
        raise UnknownApi(
            f"no {'metadata record' if kind == 'metadata' else kind} has number {api_key}"
        )
    return message_type(name)


def message_names() -> tuple[str, ...]:
    """The name of every message, sorted."""
    return tuple(sorted(MODULES))
