"""The form that Kafka's checkpoint files share: version 0, the number of entries, one entry a line.

What an entry says, and whether it is true, is not known here. Source: ``CheckpointFile``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kwire.errors import DecodeError


def parse_entries(data: bytes, bytes_max: int, name: str) -> list[tuple[int, str]]:
    """Return the entries, each with the number of its line as an editor shows it; none of an empty
    file, which Kafka creates before it has any. ``name`` is what an error calls the file. Raises
    DecodeError.
    """
    if not data:
        return []
    if len(data) > bytes_max:
        raise DecodeError(f"more than {bytes_max} bytes are no {name}")
    # A byte that is not ASCII becomes one that no entry contains.
    lines = data.decode("ascii", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != "0":
        raise DecodeError(f"does not begin with version 0 and a count: {lines[:1]}")
    # The count shows a file that was cut (``CheckpointFile`` throws IOException).
    if lines[1].strip() != str(len(lines) - 2):
        raise DecodeError(f"announces {lines[1]!r} entries and has {len(lines) - 2}")
    return list(enumerate(lines[2:], 3))


def format_entries(entries: Sequence[str]) -> bytes:
    """Return the file's bytes, as Kafka's ``CheckpointFile`` writes them."""
    return "".join(f"{line}\n" for line in ("0", str(len(entries)), *entries)).encode("ascii")


def numbers(fields: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of an entry. Raises ValueError for a field that is none of a file."""
    for field in fields:
        if not field.isdigit() or len(field) >= 20:
            raise ValueError(field)
        yield int(field)
