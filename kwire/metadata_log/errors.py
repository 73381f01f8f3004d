"""Names faults in the files of a metadata log, as an error or as a warning."""

from __future__ import annotations


class MetadataLogError(Exception):
    """The files of a metadata log do not lead to a state: one is damaged, missing or too new.

    Attributes: ``reason`` (sentence with the file and the place), ``intact_before`` (the offset up
    to which the log leads to a state, None where there is none).
    """

    def __init__(self, reason: str, *, intact_before: int | None = None) -> None:
        self.reason = reason
        self.intact_before = intact_before
        super().__init__(reason, intact_before)

    def __str__(self) -> str:
        if self.intact_before is None:
            return self.reason
        return f"{self.reason}; the state before offset {self.intact_before} can be had"


class MetadataLogWarning(UserWarning):
    """The files of a metadata log could be read, with a reservation: the text says which."""
