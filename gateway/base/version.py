"""Reads the version of this software from the installed package."""

from __future__ import annotations

import functools


@functools.cache
def installed_version() -> str:
    """The version of the installed package; ``unknown`` in a checkout that was not installed."""
    # Imported on first use: with its own imports it takes a twentieth of a server's start.
    import importlib.metadata

    try:
        return importlib.metadata.version("kwire")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
