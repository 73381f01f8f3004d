"""Opens the ``log`` source: finds out what a path is, and whose log lies there. Following it is ``log_directory``'s work."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Final

from gateway.log import meta_properties, partition_metadata
from gateway.log.file_names import parse_segment_name, parse_snapshot_name
from gateway.log.follower import DirectoryFollower, FileFollower
from gateway.sources.errors import SourceError
from gateway.sources.log_directory import LogDirectory
from kwire.errors import DecodeError
from kwire.uuid import METADATA_TOPIC_ID

PARTITION_DIRECTORY: Final = "__cluster_metadata-0"
_SUFFIXES: Final = (".log", ".checkpoint")


def open_log(path: str | os.PathLike[str], *, snapshot_prefix: bool = True) -> LogDirectory:
    """The source over ``path``: a ``__cluster_metadata-0`` directory, its parent, or one .log or .checkpoint file.

    Nothing is scanned yet: the partition is LOADING until ``refresh`` was called often enough. ``snapshot_prefix`` as in
    ``DirectoryFollower``; a file on its own has none. Raises SourceError.
    """
    given = Path(path)
    try:
        place = given.resolve(strict=True)
        follower: DirectoryFollower | FileFollower
        if place.is_dir():
            place = _partition_directory(place)
            _check_topic_id(place / partition_metadata.FILE_NAME)
            follower = DirectoryFollower(str(place), snapshot_prefix=snapshot_prefix)
        elif place.suffix in _SUFFIXES:
            follower = FileFollower(str(place))
        else:
            raise SourceError(f"{given} is neither a directory nor a .log or .checkpoint file of Kafka's")
        _first_look(follower, place)
    except FileNotFoundError:
        raise SourceError(f"{given} does not exist: give the __cluster_metadata-0 directory or its parent") from None
    except OSError as error:
        raise SourceError(f"cannot read {error.filename or given}: {error.strerror}; check its permissions") from None
    log_dir = place.parent.parent if place.is_file() and place.parent.name == PARTITION_DIRECTORY else place.parent
    return LogDirectory(follower, cluster_id=_cluster_id(place, log_dir), log_dir=str(log_dir))


def _first_look(follower: DirectoryFollower | FileFollower, place: Path) -> None:
    """Everything can be opened. A segment that goes at this very moment is none of it: the next look finds out."""
    try:
        follower.look()
    except FileNotFoundError:
        if not place.exists():
            raise


def _partition_directory(directory: Path) -> Path:
    """The directory itself if it is a metadata partition's, by name or by what it holds, else the one inside it."""
    if directory.name == PARTITION_DIRECTORY:
        return directory
    if (directory / PARTITION_DIRECTORY).is_dir():
        return directory / PARTITION_DIRECTORY
    with os.scandir(directory) as entries:
        for entry in entries:
            if parse_segment_name(entry.name) is not None or parse_snapshot_name(entry.name):
                return directory
    raise SourceError(
        f"{directory} holds no {PARTITION_DIRECTORY}: give Kafka's metadata.log.dir (or the first of log.dirs), "
        f"or the {PARTITION_DIRECTORY} directory itself"
    )


def _check_topic_id(path: Path) -> None:
    """The directory of another topic is refused; one without the file is taken at its name."""
    try:
        topic_id = partition_metadata.read_topic_id(path)
    except FileNotFoundError:
        return
    except DecodeError as error:
        raise SourceError(f"{error}; restore the file, or remove it to serve the directory without this check") from None
    if topic_id != METADATA_TOPIC_ID:
        raise SourceError(f"{path} names topic id {topic_id}; that of __cluster_metadata is {METADATA_TOPIC_ID}")


def _cluster_id(place: Path, log_dir: Path) -> str:
    """From meta.properties; where there is none, 22 characters made of the path, the same at every start."""
    try:
        found = meta_properties.read_meta_properties(log_dir / meta_properties.FILE_NAME).cluster_id
    except FileNotFoundError:
        found = None
    except DecodeError as error:
        raise SourceError(f"{error}; restore the file, or remove it to serve under a made-up cluster id") from None
    except OSError as error:
        raise SourceError(f"cannot read {error.filename}: {error.strerror}; check its permissions") from None
    if found is not None:
        return found
    digest = hashlib.sha256(b"kwire cluster id\0" + os.fsencode(place)).digest()[:16]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
