"""Reads and writes ``meta.properties``: the cluster and node that a log directory belongs to.

It does not compare them with the configuration: ``gateway.log.metadata.voter_directory_check`` does
for a voter. Source: ``MetaProperties``, ``PropertiesUtils``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import javaproperties

from gateway.base.sizes import KIB
from kwire.errors import DecodeError
from kwire.metadata_log.open_file import read_regular
from kwire.uuid import Uuid

FILE_NAME: Final = "meta.properties"
#: The file has about four short lines; a larger one is another file.
_BYTES_MAX: Final = 64 * KIB


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The file's values; None for a key that is missing."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: Uuid | None


def read_meta_properties(path: Path) -> MetaProperties:
    """Read the file. Raises OSError, and DecodeError with the file as ``path`` for anything that
    Kafka would not start with.
    """
    # One byte more than allowed shows that the file is larger.
    data = read_regular(path, _BYTES_MAX + 1)
    try:
        return parse_meta_properties(data)
    except DecodeError as error:
        raise DecodeError(
            f"{error.reason} ({error.path})" if error.path else error.reason, path=str(path)
        ) from None


def parse_meta_properties(data: bytes) -> MetaProperties:
    """Parse Java properties of version 0 (with ``broker.id``) or 1 (with ``node.id``). Raises
    DecodeError.
    """
    if len(data) > _BYTES_MAX:
        raise DecodeError(f"more than {_BYTES_MAX} bytes are no {FILE_NAME}")
    try:
        # ``java.util.Properties`` reads and writes ISO 8859-1, and escapes all else.
        values = javaproperties.loads(data.decode("iso-8859-1"))
    except javaproperties.InvalidUEscapeError as error:
        raise DecodeError(str(error)) from None
    version = _number(values, "version")
    if version not in (0, 1):
        raise DecodeError(f"version {version} is not 0 or 1", path="version")
    node_id = _number(values, "node.id" if version else "broker.id")
    cluster_id = values.get("cluster.id")
    # Version 0 may lack either (``MetaProperties.Builder``).
    if version == 1 and (node_id is None or cluster_id is None):
        raise DecodeError("version 1 must have node.id and cluster.id")
    return MetaProperties(version, cluster_id, node_id, _directory_id(values.get("directory.id")))


def format_meta_properties(properties: MetaProperties, written_at: datetime) -> bytes:
    """Return the file's bytes as Java's ``Properties.store`` writes them, in Kafka's order.

    ``written_at`` goes into the comment at the head; it must have a time zone.
    """
    values: dict[str, str] = {}
    if properties.node_id is not None:
        values["node.id" if properties.version else "broker.id"] = str(properties.node_id)
    if properties.directory_id is not None:
        values["directory.id"] = str(properties.directory_id)
    # In the order that ``java.util.Properties`` gives these four keys: the files compare byte for
    # byte.
    values["version"] = str(properties.version)
    if properties.cluster_id is not None:
        values["cluster.id"] = properties.cluster_id
    return javaproperties.dumps(values, comments="", timestamp=written_at).encode("iso-8859-1")


def _number(values: Mapping[str, str], key: str) -> int | None:
    text = values.get(key)
    if text is None:
        if key == "version":
            raise DecodeError("is missing", path=key)
        return None
    # ``int`` takes more than Java's ``Integer.parseInt``: underscores, spaces, digits of other
    # scripts.
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 11:
        raise DecodeError(f"{text!r} is not a number", path=key)
    return int(text)


def _directory_id(text: str | None) -> Uuid | None:
    try:
        return Uuid.parse(text) if text is not None else None
    except ValueError as error:
        raise DecodeError(str(error), path="directory.id") from None
