"""Holds the values of many records side by side: one buffer, and the position of each value. It
does not read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

NULL: Final = -1


@dataclass(frozen=True)
class Values:
    """Value i is ``data[starts[i] : starts[i] + sizes[i]]``; a size of -1 is a null."""

    data: Bytes
    starts: Numbers
    sizes: Numbers

    @classmethod
    def of(cls, array: pa.Array) -> Values:
        """The values of an Arrow array of type binary or large_binary; their bytes are not
        copied.
        """
        wide = pa.types.is_large_binary(array.type)
        _, offsets, data = array.buffers()
        if offsets is None or not len(array):
            return cls.none()
        bounds = np.frombuffer(offsets, np.int64 if wide else np.int32)[
            array.offset : array.offset + len(array) + 1
        ]
        starts, sizes = bounds[:-1].astype(np.int64), np.diff(bounds).astype(np.int64)
        if array.null_count:
            sizes[array.is_null().to_numpy(zero_copy_only=False)] = NULL
        return cls(
            np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8),
            starts,
            sizes,
        )

    @classmethod
    def none(cls) -> Values:
        """An empty sequence of values."""
        return cls(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes | None:
        start, size = int(self.starts[row]), int(self.sizes[row])
        return None if size < 0 else self.data[start : start + size].tobytes()

    def taken(self, rows: npt.NDArray[Any]) -> Values:
        """The values of ``rows`` (row numbers, or a Boolean for each row), in that order."""
        return Values(self.data, self.starts[rows], self.sizes[rows])

    def matrix(self, rows: Numbers, size: int) -> Bytes:
        """The values of ``rows``, which all have ``size`` bytes, one a row."""
        return np.lib.stride_tricks.sliding_window_view(self.data, size)[self.starts[rows]]

    def begin_with(self, prefixes: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Return for each value whether it begins with one of ``prefixes``; false for nulls."""
        found = np.zeros(len(self), np.bool_)
        for prefix in prefixes:
            rows = np.flatnonzero(self.sizes >= len(prefix))
            if len(rows):
                found[
                    rows[
                        (self.matrix(rows, len(prefix)) == np.frombuffer(prefix, np.uint8)).all(
                            axis=1
                        )
                    ]
                ] = True
        return found

    def to_list(self) -> list[bytes | None]:
        """Return all values."""
        first = int(self.starts.min()) if len(self) else 0
        end = int((self.starts + np.maximum(self.sizes, 0)).max()) if len(self) else 0
        data = self.data[first:end].tobytes()
        bounds = zip((self.starts - first).tolist(), self.sizes.tolist(), strict=True)
        return [None if size < 0 else data[at : at + size] for at, size in bounds]

    def to_arrow(self) -> pa.Array:
        """Return a copy as an Arrow array of type binary."""
        return pa.array(self.to_list(), pa.binary())
