"""Decodes many records of the same layout at once with numpy: a matrix of bytes to columns, JSON
and keys. No Python runs per record. A record that does not fit a layout is left to the caller. It
does not know Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kwire.errors import WireError
from kwire.spark.columns import arrow_type
from kwire.spark.entities import ABOUT, part
from kwire.spark.exact import exact_row, json_text
from kwire.spark.layout import FRAME, Constant, Items, Layout, Leaf, Node, layout_of
from kwire.spark.values import Bytes, Numbers, Values
from kwire.uuid import Uuid

#: Fewer records than this are decoded sooner one by one.
ROWS_MIN: Final = 96
#: Layouts of one type, version and size that are kept, and how many may be good for too few rows
#: before the rest is left.
_LAYOUTS_MAX: Final = 32
_VAIN_MAX: Final = 2

#: Bytes that JSON writes unchanged. Quotes, backslashes and control characters are escaped, and
#: text beyond ASCII may be damaged.
_PLAIN: Final = np.array([32 <= n < 127 and chr(n) not in '"\\' for n in range(256)])
_DTYPES: Final = {
    "int8": ">i1",
    "int16": ">i2",
    "uint16": ">u2",
    "int32": ">i4",
    "uint32": ">u4",
    "int64": ">i8",
}
#: Twelve bits as two letters of Kafka's base64.
_LETTERS: Final = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
_PAIRS: Final = (
    np.stack([_LETTERS.repeat(64), np.tile(_LETTERS, 64)], axis=1).copy().view(np.uint16).ravel()
)

#: JSON in pieces: text that stays, and fields that vary.
Piece = str | Leaf


@dataclass(frozen=True)
class Group:
    """Records of one layout: their row numbers, ascending, and their bytes, one record a row."""

    layout: Layout
    rows: Numbers
    matrix: Bytes

    def json(self) -> pa.Array:
        """The JSON form of each record."""
        return self._text(_merged(_json_pieces(self.layout.root)))

    def keys(self) -> pa.Array:
        """The key of each record (:mod:`kwire.spark.entities`)."""
        pieces: list[Piece] = []
        for n, name in enumerate(ABOUT[self.layout.name].fields):
            node = self.layout.root[name]
            pieces += [":"] if n else []
            pieces.append(
                node
                if isinstance(node, Leaf)
                else part(name, node.value if isinstance(node, Constant) else None)
            )
        return self._text(pieces) if pieces else pa.nulls(len(self.rows), pa.string())

    def structs(self) -> pa.Array:
        """Each record as a struct of all its fields."""
        return self._array(self.layout.root, arrow_type(self.layout.root.cls))

    def _text(self, pieces: Sequence[Piece]) -> pa.Array:
        parts = [one if isinstance(one, str) else self._leaf_text(one) for one in pieces]
        texts = _merged(parts)
        if len(texts) == 1 and isinstance(texts[0], str):
            return pa.repeat(pa.scalar(texts[0]), len(self.rows))
        return pc.binary_join_element_wise(
            *(pa.scalar(one) if isinstance(one, str) else one for one in texts), ""
        )

    def _leaf_text(self, leaf: Leaf) -> Any:
        """A column of texts; one text if all are the same."""
        cells = self.matrix[:, leaf.at : leaf.at + leaf.size]
        if (cells == cells[0]).all():
            return self._column(leaf, cells[:1])[0].as_py()
        return self._column(leaf, cells)

    @staticmethod
    def _column(leaf: Leaf, cells: Bytes) -> pa.Array:
        if leaf.type == "uuid":
            return _fixed_strings(_uuid_letters(cells))
        if leaf.type == "string":
            return _fixed_strings(np.ascontiguousarray(cells))
        return pc.cast(_scalars(leaf.type, cells), pa.string())

    def _array(self, node: Node | None, kind: pa.DataType) -> pa.Array:
        count = len(self.rows)
        if node is None:
            return pa.nulls(count, kind)
        if isinstance(node, Constant):
            return pa.repeat(pa.scalar(_plain(node.value), kind), count)
        if isinstance(node, Leaf):
            cells = self.matrix[:, node.at : node.at + node.size]
            return (
                self._column(node, cells)
                if node.type in ("uuid", "string")
                else _scalars(node.type, cells).cast(kind)
            )
        if isinstance(node, Items):
            width = len(node.items)
            column = pa.concat_arrays([self._array(one, kind.value_type) for one in node.items])
            order = np.arange(width * count).reshape(width, count).T.ravel()
            return pa.ListArray.from_arrays(
                pa.array(np.arange(0, width * count + 1, width), pa.int32()), column.take(order)
            )
        arrays = [self._array(one, kind.field(n).type) for n, (_, one) in enumerate(node.fields)]
        return (
            pa.StructArray.from_arrays(arrays, fields=list(kind))
            if arrays
            else pa.array([{}] * count, kind)
        )


class Layouts:
    """The layouts that were learned so far. It sorts records by them."""

    def __init__(self, *, secrets: bool) -> None:
        self._secrets = secrets
        self._known: dict[tuple[int, int], list[Layout]] = {}

    def groups(self, values: Values) -> tuple[list[Group], Numbers]:
        """(the groups, the rows that are in none of them, ascending)."""
        found: list[Group] = []
        left = [np.empty(0, np.int64)]
        for frame, size, rows in _alike(values):
            if frame >= 0 and len(rows) >= ROWS_MIN:
                rows = self._sort(
                    found,
                    self._known.setdefault((frame, size), []),
                    rows,
                    values.matrix(rows, size),
                )
            left.append(rows)
        return found, np.sort(np.concatenate(left))

    def _sort(
        self, found: list[Group], known: list[Layout], rows: Numbers, matrix: Bytes
    ) -> Numbers:
        """Add to ``found`` the rows of layouts that are known or can be learned from them; return
        the other rows.
        """
        for layout in known:
            rows, matrix = _take(found, layout, rows, matrix)
        vain = 0
        while len(rows) >= ROWS_MIN and vain < _VAIN_MAX and len(known) < _LAYOUTS_MAX:
            # The first may be an odd one: the next to be looked at is from the middle.
            at, before = vain * len(rows) // _VAIN_MAX, len(rows)
            learned = self._learned(matrix[at : at + 1])
            if learned is not None:
                rows, matrix = _take(found, learned, rows, matrix)
            if learned is None or len(rows) == before:
                vain += 1
            else:
                known.append(learned)
        return rows

    def _learned(self, one: Bytes) -> Layout | None:
        """Return the layout of a record, if it gives the same JSON and key for that record as
        decoding does; else None.
        """
        value = one.tobytes()
        try:
            layout = layout_of(value, secrets=self._secrets)
        except WireError:
            return None
        if layout is None or not _fitting(layout, one).all():
            return None
        group = Group(layout, np.zeros(1, np.int64), one)
        exact = exact_row(value, secrets=self._secrets)
        return (
            layout
            if (group.json()[0].as_py(), group.keys()[0].as_py()) == (exact.data, exact.key)
            else None
        )


def _take(
    found: list[Group], layout: Layout, rows: Numbers, matrix: Bytes
) -> tuple[Numbers, Bytes]:
    """Add to ``found`` the rows that have ``layout``, if they are at least ``ROWS_MIN``; return the
    other rows.
    """
    if len(rows) < ROWS_MIN:
        return rows, matrix
    good = _fitting(layout, matrix)
    count = int(np.count_nonzero(good))
    if count < ROWS_MIN:
        return rows, matrix
    if count == len(rows):
        found.append(Group(layout, rows, matrix))
    else:
        found.append(Group(layout, rows[good], matrix[good]))
    return rows[~good], matrix[~good]


def _alike(values: Values) -> Iterator[tuple[int, int, Numbers]]:
    """Yield rows of the same frame and size: (the frame as a number, the size, the rows ascending).
    Frame -1 is a value of fewer than three bytes.
    """
    framed = values.sizes >= FRAME
    frames = np.full(len(values), -1, np.int64)
    rows = np.flatnonzero(framed)
    if len(rows):
        head = values.matrix(rows, FRAME).astype(np.int64)
        frames[rows] = np.where(
            (head < 128).all(axis=1), head[:, 0] << 16 | head[:, 1] << 8 | head[:, 2], -1
        )
    order = np.lexsort((values.sizes, frames))
    ends = np.flatnonzero((np.diff(frames[order]) != 0) | (np.diff(values.sizes[order]) != 0)) + 1
    for alike in np.split(order, ends):
        if len(alike):
            yield int(frames[alike[0]]), int(values.sizes[alike[0]]), alike


def _fitting(layout: Layout, matrix: Bytes) -> npt.NDArray[np.bool_]:
    """For each row of ``matrix``, whether it has the shape of the layout and only values that the
    layout can show.
    """
    shape = np.array(layout.shape, np.intp)
    good: npt.NDArray[np.bool_] = (
        matrix[:, shape] == np.frombuffer(layout.expected, np.uint8)
    ).all(axis=1)
    for leaf in layout.leaves:
        cells = matrix[:, leaf.at : leaf.at + leaf.size]
        if leaf.type == "string":
            good &= _PLAIN[cells].all(axis=1)
        elif leaf.type == "bool":
            good &= cells[:, 0] < 2
        if leaf.never is not None:
            good &= (cells != np.frombuffer(leaf.never, np.uint8)).any(axis=1)
    return good


def _json_pieces(node: Node) -> Iterator[Piece]:
    if isinstance(node, Constant):
        # Of bytes there are none here but those that say that others are hidden, and no bytes at
        # all.
        yield json_text(node.value.decode() if type(node.value) is bytes else _plain(node.value))
    elif isinstance(node, Leaf):
        quote = '"' if node.type in ("uuid", "string") else ""
        yield from (quote, node, quote)
    elif isinstance(node, Items):
        yield from _listed("[", [("", one) for one in node.items], "]")
    else:
        shown = [
            (f, one)
            for f, one in node.fields
            if one is not None and not (isinstance(one, Constant) and not one.shown)
        ]
        yield from _listed("{", [(f'"{f.json}":', one) for f, one in shown], "}")


def _listed(begin: str, nodes: Sequence[tuple[str, Node]], end: str) -> Iterator[Piece]:
    yield begin
    for n, (name, node) in enumerate(nodes):
        yield f",{name}" if n else name
        yield from _json_pieces(node)
    yield end


def _merged(pieces: Iterable[Any]) -> list[Any]:
    """Return the pieces, with adjacent texts joined."""
    merged: list[Any] = []
    for one in pieces:
        if isinstance(one, str) and merged and isinstance(merged[-1], str):
            merged[-1] += one
        else:
            merged.append(one)
    return merged


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Uuid) else value


def _scalars(kind: str, cells: Bytes) -> pa.Array:
    """Numbers of a fixed size, big-endian as on the wire."""
    if kind == "bool":
        return pa.array(cells[:, 0] != 0)
    wire = np.dtype(_DTYPES[kind])
    return pa.array(np.ascontiguousarray(cells).view(wire).ravel().astype(wire.newbyteorder("=")))


def _uuid_letters(cells: Bytes) -> Bytes:
    """16 bytes a row as Kafka's 22 letters: URL-safe base64 without padding."""
    wide = np.zeros((len(cells), 18), np.uint16)
    wide[:, :16] = cells
    high = wide[:, 0::3] << 4 | wide[:, 1::3] >> 4
    low = (wide[:, 1::3] & 15) << 8 | wide[:, 2::3]
    pairs = np.empty((len(cells), 12), np.uint16)
    pairs[:, 0::2], pairs[:, 1::2] = _PAIRS[high], _PAIRS[low]
    return np.ascontiguousarray(pairs.view(np.uint8)[:, :22])


def _fixed_strings(letters: Bytes) -> pa.Array:
    """A column of texts of one length, each a row of ``letters``."""
    count, size = letters.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))
