"""``quorum-state``: whom a node voted for and follows, in the two forms that Kafka writes (``FileQuorumStateStore``).

Version 0 goes with ``kraft.version`` 0 and names the voters; version 1 names the directory voted for instead.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from kwire.errors import DecodeError
from kwire.messages.quorum_state_data import QuorumStateData

FILE_NAME: Final = "quorum-state"
#: A thousand voters take about 15 KB.
_BYTES_MAX: Final = 1024 * 1024


def read_quorum_state(path: Path) -> tuple[int, QuorumStateData]:
    """(data version, state). Raises OSError, and DecodeError with the file as ``path``: a damaged file is never guessed at."""
    with path.open("rb") as file:
        data = file.read(_BYTES_MAX + 1)
    try:
        return parse_quorum_state(data)
    except DecodeError as error:
        raise DecodeError(f"{error.path}: {error.reason}" if error.path else error.reason, path=str(path)) from None


def parse_quorum_state(data: bytes) -> tuple[int, QuorumStateData]:
    """The file's bytes. As in Kafka, members it does not know and bytes after the object do not matter. Raises DecodeError."""
    if len(data) > _BYTES_MAX:
        raise DecodeError(f"more than {_BYTES_MAX} bytes are no {FILE_NAME}")
    try:
        value, _ = json.JSONDecoder().raw_decode(data.decode("utf-8").lstrip())
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from None
    if not isinstance(value, dict) or "data_version" not in value:
        raise DecodeError("not an object with data_version")
    version = value.pop("data_version")
    if type(version) is not int or version not in QuorumStateData.VERSIONS:
        raise DecodeError(f"data_version {version!r} is not 0 or 1", path="data_version")
    return version, QuorumStateData.from_json(_known(value, version), version)


def format_quorum_state(state: QuorumStateData, version: int) -> bytes:
    """The file's bytes as Jackson writes them: one line of compact JSON without an end. Raises EncodeError."""
    value = {**state.to_json(version), "data_version": version}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def _known(value: dict[str, Any], version: int) -> dict[str, Any]:
    """The members that this version has."""
    return {field.json: value[field.json] for field in QuorumStateData.fields() if field.at(version) and field.json in value}
