"""Provides the sources of the metadata partition. ``observed_log``, for a real quorum, is imported
where it is used.
"""

from gateway.sources.errors import SourceError
from gateway.sources.log_directory import LogDirectory
from gateway.sources.log_source import open_log

__all__ = ["LogDirectory", "SourceError", "open_log"]
