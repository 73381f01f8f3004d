"""Builds copies of a log as values, and hashes of directories, for the tests of rescues."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gateway.base.address import Address
from gateway.log.files.problem import Problem
from gateway.quorum.voter_set import VoterNode, VoterSet
from gateway.rescue.copies import Contents, Copy, Election, Identity, Position
from kwire.uuid import Uuid


def directory_of(node_id: int) -> Uuid:
    """The directory id of a node."""
    return Uuid(bytes([node_id]) * 16)


def voters(*ids: int) -> VoterSet:
    """Voters with their directory ids and an endpoint each."""
    return VoterSet.of(
        VoterNode(one, directory_of(one), {"CONTROLLER": Address(f"c{one}", 9093)}, (0, 1))
        for one in ids
    )


def a_copy(
    node_id: int | None,
    end: int,
    epoch: int = 3,
    *,
    of: VoterSet | None = None,
    static: tuple[int, ...] = (),
    batches: tuple[tuple[int, int, int], ...] = (),
    high_watermark: int = 0,
    brokers: tuple[int, ...] = (4, 5),
    damaged: bool = False,
    voters_at: int = 1,
) -> Copy:
    """A copy that ends before ``end``. ``batches``: (base offset, epoch, CRC) of each."""
    copy = Copy(f"node{node_id}", end=Position(epoch, end), epochs_seen=epoch)
    copy.identity = Identity(node_id, None if node_id is None else directory_of(node_id), "cluster")
    if of is not None:
        copy.voters, copy.kraft_versions = ((voters_at, of),), ((0, 1),)
    copy.election = Election(0 if static else 1, epoch, -1, -1, static)
    copy.contents = Contents(29, brokers, ())
    copy.high_watermark = high_watermark
    copy.last_timestamp = 1_700_000_000_000
    for base, in_epoch, crc in batches:
        copy.marks.add(base, in_epoch, crc)
    if damaged:
        copy.damage.append(Problem("file", 7, "bad"))
    return copy


def hashes(directory: Path) -> dict[str, str]:
    """The SHA-256 of every file below a directory, and the names of everything else in it."""
    return {
        str(path.relative_to(directory)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "other"
        )
        for path in sorted(directory.rglob("*"))
    }
