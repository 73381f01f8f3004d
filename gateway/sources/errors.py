"""Defines the error for a source that cannot be opened."""

from __future__ import annotations


class SourceError(Exception):
    """The configured source cannot be served. The text names the path, the fault and the remedy."""
