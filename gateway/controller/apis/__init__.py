"""Finds the admin APIs: one module each in this package, named after its key in ``ApiKey``.

A module is imported when the first request of its API arrives, as most servers never get one.
:func:`load` imports all of them, in slices: a controller does when it becomes active, because all
of them at the first request hold the event loop for 100 ms where there is no byte code.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from gateway.base.slices import Slices
from gateway.controller.admin_api import AdminApi, Refusal, Resource
from gateway.ports.streamed import Streamed
from kwire.message import Message
from kwire.protocol import ApiKey


@functools.cache
def admin_keys() -> tuple[ApiKey, ...]:
    """The keys of all admin APIs, ascending. Imports none of them."""
    return tuple(sorted(ApiKey[module.name.upper()] for module in pkgutil.iter_modules(__path__)))


@functools.cache
def admin_api(key: int) -> AdminApi:
    """The descriptor of the API with this key. Raises ModuleNotFoundError for another API."""
    # By its name and not by a table, so that a new API needs one file and no other change.
    api: AdminApi = importlib.import_module(f"{__name__}.{ApiKey(key).name.lower()}").API
    return api


def load() -> Slices[None]:
    """Import the descriptors of all admin APIs, one in each step."""
    for key in admin_keys():
        admin_api(key)
        yield


def refused(request: Message, version: int, error: int, message: str | None) -> Message | Streamed:
    """The response to ``request`` of ``version`` in which everything asked has this error code."""
    return _api_of(request).refuse(request, Refusal(version, int(error), message))


def named_resources(request: Message) -> list[Resource]:
    """The resources that ``request`` changes, each once, in the order of the request."""
    # A dict and not a set: the audit log shows them in the order of the request.
    return list(dict.fromkeys(_api_of(request).resources(request)))


def _api_of(request: Message) -> AdminApi:
    assert request.API_KEY is not None, "only requests are carried out"
    return admin_api(request.API_KEY)
