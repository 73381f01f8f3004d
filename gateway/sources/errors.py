"""Why a source cannot be opened: a sentence for the person who configured it, with what to do."""

from __future__ import annotations


class SourceError(Exception):
    """The configured source cannot be served. The message names the path, what is wrong with it, and what would help."""
