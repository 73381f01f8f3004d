"""Opens the ``log`` source: finds out what a path is, and checks that it is a metadata log.

Following the files is in ``gateway.sources.log_directory``.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
from pathlib import Path
from typing import Final

from gateway.log.files import meta_properties, partition_metadata
from gateway.log.reading.follower import DirectoryFollower, FileFollower
from gateway.sources.errors import SourceError
from gateway.sources.log_directory import LogDirectory
from kwire.errors import DecodeError
from kwire.metadata_log.file_names import parse_segment_name, parse_snapshot_name
from kwire.protocol import CLUSTER_METADATA_PARTITION
from kwire.uuid import METADATA_TOPIC_ID

PARTITION_DIRECTORY: Final = CLUSTER_METADATA_PARTITION
_SUFFIXES: Final = (".log", ".checkpoint")


def open_log(path: str | os.PathLike[str], *, snapshot_prefix: bool = True) -> LogDirectory:
    """Return the source over ``path``: a ``__cluster_metadata-0`` directory, its parent, or one
    .log or .checkpoint file.

    Nothing is scanned yet: the partition is LOADING until ``refresh`` was called often enough.
    ``snapshot_prefix`` as in ``DirectoryFollower``; a single file has none. Raises SourceError.
    """
    given = Path(path)
    try:
        place = _resolve(given)
        follower: DirectoryFollower | FileFollower
        if place.is_dir():
            place = _partition_directory(place)
            _check_topic_id(place / partition_metadata.FILE_NAME)
            follower = DirectoryFollower(str(place), snapshot_prefix=snapshot_prefix)
        elif place.suffix in _SUFFIXES:
            follower = FileFollower(str(place))
        else:
            raise SourceError(
                f"{given} is neither a directory nor a .log or .checkpoint file of Kafka's"
            )
        _open_once(follower, place)
    except FileNotFoundError:
        raise SourceError(
            f"{given} does not exist: give the __cluster_metadata-0 directory or its parent"
        ) from None
    except OSError as error:
        # Of too many segments the text says itself what to do.
        advice = "" if error.errno == errno.EMFILE else "; check its permissions"
        raise SourceError(
            f"cannot read {error.filename or given}: {error.strerror}{advice}"
        ) from None
    log_dir = (
        place.parent.parent
        if place.is_file() and place.parent.name == PARTITION_DIRECTORY
        else place.parent
    )
    return LogDirectory(
        follower,
        cluster_id=_cluster_id(place, log_dir),
        log_dir=str(log_dir),
        directory=str(place) if place.is_dir() else None,
    )


def _resolve(given: Path) -> Path:
    """Resolve the path. Raises OSError, also for a loop of symbolic links, which is a RuntimeError
    before Python 3.13.
    """
    try:
        return given.resolve(strict=True)
    except RuntimeError as error:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(given)) from error


def _open_once(follower: DirectoryFollower | FileFollower, place: Path) -> None:
    """Open every file once. A segment that is deleted at this moment is no error: the next scan
    sees it.
    """
    try:
        follower.rescan()
    except FileNotFoundError:
        if not place.exists():
            raise


def _partition_directory(directory: Path) -> Path:
    """Return the metadata partition's directory: the given one, by name or content, or the one
    inside it.
    """
    if directory.name == PARTITION_DIRECTORY:
        return directory
    if (directory / PARTITION_DIRECTORY).is_dir():
        return directory / PARTITION_DIRECTORY
    with os.scandir(directory) as entries:
        for entry in entries:
            if parse_segment_name(entry.name) is not None or parse_snapshot_name(entry.name):
                return directory
    raise SourceError(
        f"{directory} holds no {PARTITION_DIRECTORY}: give Kafka's metadata.log.dir "
        "(or the first of log.dirs), "
        f"or the {PARTITION_DIRECTORY} directory itself"
    )


def _check_topic_id(path: Path) -> None:
    """Refuse the directory of another topic; accept one without the file by its name."""
    try:
        topic_id = partition_metadata.read_topic_id(path)
    except FileNotFoundError:
        return
    except DecodeError as error:
        raise SourceError(
            f"{error}; restore the file, or remove it to serve the directory without this check"
        ) from None
    if topic_id != METADATA_TOPIC_ID:
        raise SourceError(
            f"{path} names topic id {topic_id}; that of __cluster_metadata is {METADATA_TOPIC_ID}"
        )


def _cluster_id(place: Path, log_dir: Path) -> str:
    """Return the id from meta.properties; without that file, 22 characters derived from the path,
    the same at every start.
    """
    try:
        found = meta_properties.read_meta_properties(log_dir / meta_properties.FILE_NAME).cluster_id
    except FileNotFoundError:
        found = None
    except DecodeError as error:
        raise SourceError(
            f"{error}; restore the file, or remove it to serve under a made-up cluster id"
        ) from None
    except OSError as error:
        raise SourceError(
            f"cannot read {error.filename}: {error.strerror}; check its permissions"
        ) from None
    if found is not None:
        return found
    digest = hashlib.sha256(b"kwire cluster id\0" + os.fsencode(place)).digest()[:16]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
