"""Where the metadata partition comes from."""

from gateway.sources.errors import SourceError
from gateway.sources.log_directory import LogDirectory
from gateway.sources.log_source import open_log

__all__ = ["LogDirectory", "SourceError", "open_log", "open_source"]


def open_source(source: str, *, log_dir: str | None = None, snapshot_prefix: bool = True) -> LogDirectory:
    """The source by its configured name, ``log`` over ``log_dir`` (see :func:`open_log`). Raises SourceError."""
    if source != "log":
        raise SourceError(f"there is no source {source!r}; 'log' follows a log directory")
    if log_dir is None:
        raise SourceError("the source 'log' needs the log directory to follow: set log.dirs")
    return open_log(log_dir, snapshot_prefix=snapshot_prefix)
