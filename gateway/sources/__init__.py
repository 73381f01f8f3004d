"""Where the metadata partition comes from. ``observed_log``, for a real quorum, is imported by who needs it."""

from gateway.sources.errors import SourceError
from gateway.sources.log_directory import LogDirectory
from gateway.sources.log_source import open_log

__all__ = ["LogDirectory", "SourceError", "open_log"]
