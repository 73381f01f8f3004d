"""Reads and writes ``quorum-state``: the leader that a node follows, its epoch and its vote.

Version 0 goes with ``kraft.version`` 0 and names the voters; version 1 names the directory id of
the vote instead (KIP-853). It does not write the file: ``gateway.log.metadata.metadata_files``
does. Source: ``FileQuorumStateStore``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from gateway.base.sizes import MIB
from gateway.log.files.errors import ElectionGoesBack
from kwire.errors import DecodeError
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.metadata_log.open_file import read_regular

FILE_NAME: Final = "quorum-state"
#: A thousand voters take about 15 KB.
_BYTES_MAX: Final = MIB


def read_quorum_state(path: Path) -> tuple[int, QuorumStateData]:
    """Return (data version, state). Raises OSError, and DecodeError with the file as ``path``."""
    # One byte more than allowed shows that the file is larger.
    data = read_regular(path, _BYTES_MAX + 1)
    try:
        return parse_quorum_state(data)
    except DecodeError as error:
        raise DecodeError(
            f"{error.path}: {error.reason}" if error.path else error.reason, path=str(path)
        ) from None


def parse_quorum_state(data: bytes) -> tuple[int, QuorumStateData]:
    """Parse the file's bytes. As in Kafka, unknown members and bytes after the object are ignored.
    Raises DecodeError.
    """
    if len(data) > _BYTES_MAX:
        raise DecodeError(f"more than {_BYTES_MAX} bytes are no {FILE_NAME}")
    try:
        # Not ``json.loads``: Jackson reads one object and ignores the bytes after it.
        value, _ = json.JSONDecoder().raw_decode(data.decode("utf-8").lstrip())
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}") from None
    if not isinstance(value, dict) or "data_version" not in value:
        raise DecodeError("not an object with data_version")
    version = value.pop("data_version")
    # ``type`` and not ``isinstance``: True is an int. Kafka takes the ``shortValue`` of any JSON
    # value, which is 0 for a text.
    if type(version) is not int or version not in QuorumStateData.VERSIONS:
        raise DecodeError(f"data_version {version!r} is not 0 or 1", path="data_version")
    return version, QuorumStateData.from_json(_known(value, version), version)


def format_quorum_state(state: QuorumStateData, version: int) -> bytes:
    """Return the file's bytes as Jackson writes them: one line of compact JSON without a newline.
    Raises EncodeError.
    """
    # Last, as ``writeElectionStateToFile`` puts it: the files are compared byte for byte.
    value = {**state.to_json(version), "data_version": version}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def check_moves_forward(path: Path, old: QuorumStateData, new: QuorumStateData) -> None:
    """Refuse a ``new`` state that contradicts ``old``: a lower epoch, or another leader or vote in
    the same epoch.

    Raises ElectionGoesBack.
    """
    # The core asserts the same. A second check at the file costs nothing, and two votes of a node
    # in one epoch can elect two leaders (Raft 5.2).
    same = old.leader_epoch == new.leader_epoch
    other_leader = (
        same and -1 not in (old.leader_id, new.leader_id) and old.leader_id != new.leader_id
    )
    other_vote = same and -1 not in (old.voted_id, new.voted_id) and old.voted_id != new.voted_id
    if new.leader_epoch < old.leader_epoch or other_leader or other_vote:
        raise ElectionGoesBack(
            f"refused to write epoch {new.leader_epoch}, leader {new.leader_id}, vote "
            f"{new.voted_id} to {path}, which has epoch {old.leader_epoch}, leader "
            f"{old.leader_id}, vote {old.voted_id}"
        )


def _known(value: dict[str, Any], version: int) -> dict[str, Any]:
    """Return the members that this version has."""
    return {
        field.json: value[field.json]
        for field in QuorumStateData.fields()
        if field.at(version) and field.json in value
    }
