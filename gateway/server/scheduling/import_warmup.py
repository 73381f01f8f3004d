"""Imports the modules that the first request of an API, or the first faulty one, would import.

A module of message classes takes 1 ms to import from byte code and up to 40 ms without. The server
imports one in each pass of the event loop after it is ready: its start takes no longer, and no
request waits for all of them. A thread would not be faster, because compiling and running a module
hold the interpreter's lock. Modules that only some configurations use are imported when these are
read (``gateway.app``).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import trio

from gateway.controller.apis import admin_keys

if TYPE_CHECKING:
    from gateway.handlers.context import Handler

#: Modules that functions of the server import on first use, other than those of requests.
FIRST_USE_MODULES: Final = (
    *(f"gateway.controller.apis.{key.name.lower()}" for key in admin_keys()),
    "kwire.diagnose",
    "kwire.jsonform",
    "kwire.messages.alter_replica_log_dirs_response",
    "kwire.messages.delete_records_response",
    "kwire.messages.init_producer_id_response",
)


async def import_first_use_modules(handlers: Iterable[Handler]) -> None:
    """Import ``FIRST_USE_MODULES`` and the request classes of ``handlers``, with a checkpoint after
    each.
    """
    for name in FIRST_USE_MODULES:
        await trio.lowlevel.checkpoint()
        importlib.import_module(name)
    for handler in handlers:
        for version in {*handler.versions[-1:], *handler.old_requests}:
            await trio.lowlevel.checkpoint()
            handler.request_type(version)
