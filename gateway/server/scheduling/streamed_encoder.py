"""Encodes a streamed response a few elements at a time, so that its structs never exist all at
once.

It knows neither connections nor the event loop: :meth:`StreamedEncoder.run` stops at the time it is
given. The generated encoders write an array as its length and then its elements one by one.
:class:`_Window` takes the place of an array and notes where the elements begin and end among the
encoded parts, so that any array of any message can be encoded in pieces, at any version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from gateway.base.sizes import KIB
from gateway.ports.answer_errors import count_errors
from gateway.ports.encoded import Encoded
from gateway.ports.streamed import Streamed

if TYPE_CHECKING:
    from kwire.message import Struct

#: Elements that are encoded with one call. Each call encodes the fields around the array again.
_BATCH_MAX: Final = 500
#: Encoded pieces are joined to chunks of this size, bytes: few objects, and no large copy.
_CHUNK_MIN: Final = 64 * KIB
#: Shorter elements that are encoded already are copied: each chunk takes time, too.
_UNCOPIED_MIN: Final = KIB


class _Window:
    """An array of ``count`` elements as an encoder sees it, of which only ``elements`` are encoded.

    After encoding, ``parts[begin:end]`` are the elements; the parts before and after belong to the
    struct that contains the array.
    """

    __slots__ = ("begin", "count", "elements", "end", "parts")

    def __init__(self, count: int, elements: Sequence[Struct], parts: list[Any]) -> None:
        self.count = count
        self.elements = elements
        self.parts = parts
        self.begin = self.end = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Struct]:
        self.begin = len(self.parts)
        yield from self.elements
        self.end = len(self.parts)


class _Array:
    """A streamed array that is being encoded. ``slot`` is the index of the chunk for the fields
    before it.
    """

    __slots__ = ("attr", "count", "elements", "slot", "struct")

    def __init__(self, streamed: Streamed, slot: int) -> None:
        self.struct: Any = streamed.message
        self.attr = streamed.attr
        self.elements = streamed.elements
        self.count = 0
        self.slot = slot


class StreamedEncoder:
    """Encodes the body of one streamed response at one version.

    ``size`` is the number of bytes so far. Those of ``shared``, long elements that were encoded
    already, are part of the response as they are, uncopied.
    """

    def __init__(self, streamed: Streamed, version: int) -> None:
        self.size = 0
        self.shared: list[Encoded] = []
        self.errors: Counter[int] = Counter()  #: occurrences of each error code in the response
        self._streamed = streamed
        self._version = version
        self._chunks: list[Any] = []
        self._loose: list[bytes] = []  # encoded and not yet joined to a chunk
        self._loose_bytes = 0
        self._open: list[_Array] = []  # from the outermost array to the innermost
        self._enter(streamed)

    def run(self, clock: Callable[[], float], seconds: float) -> bool:
        """Encode for about ``seconds``; True when the response is complete. Raises EncodeError, and
        any exception that the iterator of elements raises.
        """
        began = clock()
        while self._open:
            batch, following = self._gather(clock, clock() + seconds / 2)
            if batch:
                self._encode(batch)
            if isinstance(following, Encoded):
                self._insert(following)
            elif isinstance(following, Streamed):
                self._open[-1].count += 1
                self._enter(following)
            elif following is _END:
                self._leave()
            limit = self._streamed.size_limit
            if limit is not None and self.size >= limit:
                self._streamed.is_full = True
            if clock() - began >= seconds:
                break
        return not self._open

    def take(self) -> list[bytes]:
        """The bytes of the complete response, in order."""
        self._join()
        chunks, self._chunks = self._chunks, []
        return [chunk for chunk in chunks if chunk]

    def _gather(self, clock: Callable[[], float], until: float) -> tuple[list[Struct], Any]:
        """Collect elements of the innermost array. Returns them with what follows: an encoded
        element, a nested Streamed, ``_END``, or None if the time for a batch is over.
        """
        batch: list[Struct] = []
        for element in self._open[-1].elements:
            if isinstance(element, (Encoded, Streamed)):
                return batch, element
            if element is not None:
                batch.append(element)
            if len(batch) >= _BATCH_MAX or clock() >= until:
                return batch, None
        return batch, _END

    def _encode(self, batch: list[Struct]) -> None:
        array = self._open[-1]
        array.count += len(batch)
        for element in batch:
            count_errors(element, self.errors)
        parts, windows = self._encoded(len(batch), batch)
        self._add(parts[windows[-1].begin : windows[-1].end])

    def _insert(self, encoded: Encoded) -> None:
        self._open[-1].count += encoded.count
        self.errors.update(encoded.errors)
        if len(encoded.data) < _UNCOPIED_MIN:
            self._add([encoded.data])
            return
        self._join()
        self._chunks.append(encoded.data)
        self.shared.append(encoded)
        self.size += len(encoded.data)

    def _enter(self, streamed: Streamed) -> None:
        self._join()
        self._chunks.append(b"")
        self._open.append(_Array(streamed, len(self._chunks) - 1))

    def _leave(self) -> None:
        """Complete the innermost array. Its length precedes its elements on the wire and is known
        only now, so the fields before them go into the chunk that ``_enter`` reserved.
        """
        array = self._open[-1]
        parts, windows = self._encoded(array.count, ())
        inner = windows[-1]
        begin, end = (windows[-2].begin, windows[-2].end) if len(windows) > 1 else (0, len(parts))
        before = b"".join(parts[begin : inner.begin])
        self._chunks[array.slot] = before
        self.size += len(before)
        self._add(parts[inner.end : end])
        setattr(array.struct, array.attr, [])
        count_errors(array.struct, self.errors)
        self._open.pop()

    def _encoded(self, count: int, elements: Sequence[Struct]) -> tuple[list[Any], list[_Window]]:
        """Encode the message with ``elements`` alone in the innermost array, and ``count`` as the
        array's length. Returns the parts, and a window for each open array.
        """
        parts: list[Any] = []
        windows = [_Window(1, (below.struct,), parts) for below in self._open[1:]]
        windows.append(_Window(count, elements, parts))
        for array, window in zip(self._open, windows, strict=True):
            setattr(array.struct, array.attr, window)
        self._open[0].struct.encode_parts(self._version, parts)
        return parts, windows

    def _add(self, parts: list[Any]) -> None:
        data = b"".join(parts)
        self._loose.append(data)
        self._loose_bytes += len(data)
        self.size += len(data)
        if self._loose_bytes >= _CHUNK_MIN:
            self._join()

    def _join(self) -> None:
        if self._loose:
            self._chunks.append(b"".join(self._loose))
            self._loose.clear()
            self._loose_bytes = 0


_END: Final = object()
