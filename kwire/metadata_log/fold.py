"""Folds records of a metadata log, from any source, into a state. It knows neither files nor
servers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kwire.cluster import FoldError, Image, Loader
from kwire.cluster.levels import unknown_level
from kwire.errors import WireError
from kwire.metadata_log.at import At, time_text
from kwire.metadata_log.errors import MetadataLogError
from kwire.records import decode_metadata_record


@dataclass(slots=True)
class State:
    """An image, the time of its last record (ms, None if unknown), and notes for the user."""

    image: Image
    timestamp: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def time(self) -> str | None:
        """Return ``timestamp`` in ISO 8601, UTC."""
        return None if self.timestamp is None else time_text(self.timestamp)


class Fold:
    """Folds records into a state, and turns a bad record into an error sentence."""

    def __init__(self, where: str, at: At) -> None:
        """``where`` names the source in errors and notes."""
        self.where = where
        self.at = at
        self.timestamp: int | None = None
        self.notes: list[str] = []
        self.loader = Loader()

    def take(self, offset: int, epoch: int, timestamp: int, value: bytes | None) -> None:
        """Fold the data record at ``offset``. Raises MetadataLogError for an invalid record, or one
        that does not fit.
        """
        try:
            self.loader.load(decode_metadata_record(value or b"")[2], offset, epoch)
        except (FoldError, WireError) as error:
            raise MetadataLogError(
                f"{self.where}: offset {offset}: {error}", intact_before=offset
            ) from None
        self.done(timestamp)

    def skip_to(self, next_offset: int, epoch: int, timestamp: int) -> None:
        """Skip control records below ``next_offset``."""
        self.loader.skip_to(next_offset, epoch)
        self.done(timestamp)

    def done(self, timestamp: int) -> None:
        """Set the state's time to ``timestamp``, unless a transaction is still open."""
        if not self.loader.in_transaction:
            self.timestamp = timestamp

    def state(self) -> State:
        """Return the folded state, with notes about an open transaction and an unknown level."""
        image = self.loader.image
        if self.loader.in_transaction:
            self.notes.append(
                f"{self.where}: the end is inside a metadata transaction: "
                f"this is the state before it, at offset {image.next_offset}"
            )
        level = unknown_level(image.features)
        if level is not None:
            self.notes.append(
                f"{self.where}: {level}: a newer release may read more of this log than is shown"
            )
        return State(image, self.timestamp, self.notes)
