"""Which version of this software runs."""

from __future__ import annotations

import functools


@functools.cache
def installed_version() -> str:
    """The version of the installed package; ``unknown`` in a checkout that was not installed."""
    import importlib.metadata  # with what it needs itself a twentieth of a server's start

    try:
        return importlib.metadata.version("kwire")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
