"""Which version of this software runs."""

from __future__ import annotations

import importlib.metadata


def installed_version() -> str:
    """The version of the installed package; ``unknown`` in a checkout that was not installed."""
    try:
        return importlib.metadata.version("kwire")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
