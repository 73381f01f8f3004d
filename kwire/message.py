"""Provides the base of every generated class: fields, equality, repr, copies, encode and decode,
JSON form.

The classes themselves are generated; their readers and writers are flat functions, found here by
version.
"""

from __future__ import annotations

import gc
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from kwire.errors import DecodeError, EncodeError, UnsupportedVersion

#: Errors that generated readers raise on bad bytes; ``_WRITE_FAULTS``: writers on bad values.
_READ_FAULTS = (DecodeError, struct.error, IndexError, UnicodeDecodeError)
_SHORT_WAY_FAULTS = (*_READ_FAULTS, KeyError)
_NO_BUDGET = sys.maxsize

#: Above this many bytes the garbage collector is paused while a message is decoded.
_COLLECTOR_PAUSE_BYTES = 32 * 1024

_WRITE_FAULTS = (
    EncodeError,
    struct.error,
    TypeError,
    AttributeError,
    ValueError,
    IndexError,
    OverflowError,
)


_S = TypeVar("_S", bound="Struct")


class FieldInfo(NamedTuple):
    """The facts of one field, as a generated class holds them in ``FIELDS``. Ranges are (low,
    high), both included.
    """

    name: str  #: Kafka's name
    attr: str  #: the Python attribute
    json: str  #: the member in Kafka's JSON form
    type: str  #: a primitive type, or the class name of an inner struct
    is_struct: bool
    array: bool
    versions: tuple[int, int]
    nullable: tuple[int, int]
    tagged: tuple[int, int]
    tag: int | None
    default: Any
    ignorable: bool
    map_key: bool
    flexible: tuple[int, int] | None
    entity: str | None

    def at(self, version: int) -> bool:
        """True if the field exists at ``version``."""
        return self.versions[0] <= version <= self.versions[1]

    def nullable_at(self, version: int) -> bool:
        """True if it may be null at ``version``."""
        return self.nullable[0] <= version <= self.nullable[1]

    def tagged_at(self, version: int) -> bool:
        """True if it is a tagged field at ``version``."""
        return self.tagged[0] <= version <= self.tagged[1]


class _Maker(type):
    """Lets readers make an object without its constructor: three quarters of the time, and they
    make most objects there are.

    The generated ``__init__`` is kept under another name, so that ``type.__call__`` finds none;
    calling the class runs it.
    """

    def __new__(meta, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _Maker:
        if "__init__" in namespace:
            namespace["_fill"] = namespace.pop("__init__")
        return super().__new__(meta, name, bases, namespace)

    if not TYPE_CHECKING:  # to type checkers the classes are what they look like

        def __call__(cls, **values):
            made = type.__call__(cls)
            made._fill(**values)
            return made

        @property
        def __signature__(cls):
            import inspect

            parameters = list(inspect.signature(cls._fill).parameters.values())
            return inspect.Signature(parameters[1:])


def bare(cls: type[_S]) -> Callable[[], _S]:
    """A factory of objects of ``cls`` with nothing set, for generated readers, which set every
    attribute.
    """
    made: Callable[[], _S] = type.__call__.__get__(cls)
    return made


class Struct(metaclass=_Maker):
    """A struct inside a message. Attributes are plain; ``unknown_tags`` keeps unknown tagged
    fields, in order.
    """

    __slots__ = ()
    NAME: ClassVar[str]
    FIELDS: ClassVar[tuple[tuple[Any, ...], ...]]
    unknown_tags: Sequence[tuple[int, bytes]]

    @classmethod
    def fields(cls) -> tuple[FieldInfo, ...]:
        """The facts of every field, in the order of the schema."""
        return tuple(FieldInfo(*row) for row in cls.FIELDS)

    @classmethod
    def struct_class(cls, name: str) -> type[Struct]:
        """The class of an inner struct, by the name that ``FieldInfo.type`` gives."""
        found: type[Struct] = getattr(sys.modules[cls.__module__], name)
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or self.FIELDS is not other.FIELDS:
            return NotImplemented
        return all(getattr(self, row[1]) == getattr(other, row[1]) for row in self.FIELDS) and list(
            self.unknown_tags
        ) == list(other.unknown_tags)

    def __repr__(self) -> str:
        blank = generated_class(type(self))()
        shown = [
            f"{row[1]}={_short(getattr(self, row[1]))}"
            for row in self.FIELDS
            if getattr(self, row[1]) != getattr(blank, row[1])
        ]
        if self.unknown_tags:
            shown.append(f"unknown_tags={list(self.unknown_tags)!r}")
        return f"{self.NAME}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        base = generated_class(type(self))
        values = [getattr(self, row[1]) for row in self.FIELDS] + [self.unknown_tags]
        return _rebuild, (base, [bytes(v) if isinstance(v, memoryview) else v for v in values])

    def copy(self, **changes: Any) -> Self:
        """A copy that shares no struct and no list with this one, with ``changes`` made. Raises
        TypeError for an unknown name.
        """
        values = {row[1]: _copy(getattr(self, row[1])) for row in self.FIELDS}
        values["unknown_tags"] = list(self.unknown_tags) or ()
        made: Self = generated_class(type(self))(**(values | changes))
        return made


class Message(Struct):
    """A whole message, which has versions and can be encoded on its own."""

    __slots__ = ()
    TYPE: ClassVar[
        str
    ]  #: request, response, header, metadata, data, coordinator-key or coordinator-value
    API_KEY: ClassVar[int | None]
    VERSIONS: ClassVar[range]
    FLEXIBLE_VERSIONS: ClassVar[range]
    DEPRECATED_VERSIONS: ClassVar[range]
    LATEST_VERSION_UNSTABLE: ClassVar[bool]
    LISTENERS: ClassVar[tuple[str, ...]]
    _DECODERS: ClassVar[dict[int, Callable[[bytes, int, int], tuple[Any, int]]]]
    _ENCODERS: ClassVar[dict[int, Callable[[Any, Callable[[Any], None]], None]]]

    def encode(self, version: int) -> bytes:
        """The bytes of the message at ``version``, as Java writes them.

        Raises EncodeError (``path`` names the field: out of range, wrong type, null, or set
        although the version has no place for it) and UnsupportedVersion.
        """
        try:
            return b"".join(self.encode_parts(version))
        except TypeError as error:
            raise self._write_fault(version, error) from None

    def encode_parts(self, version: int, parts: list[Any] | None = None) -> list[Any]:
        """As :meth:`encode`, unjoined: ``records`` are passed through as they are and need only a
        length.

        So a caller can send them from a file. ``parts``: the list to append them to, empty; a new
        one by default. Raises as :meth:`encode`.
        """
        encoder = self._ENCODERS.get(version)
        if encoder is None:
            raise unsupported(type(self), version)
        if parts is None:
            parts = []
        try:
            encoder(self, parts.append)
        except _WRITE_FAULTS as error:
            raise self._write_fault(version, error) from None
        return parts

    def _write_fault(self, version: int, error: Exception) -> EncodeError:
        from kwire.diagnose import explain_encode

        return explain_encode(self, version, error)

    @classmethod
    def decode(
        cls, data: Any, version: int, *, allow_trailing: bool = False, budget: int | None = None
    ) -> Self:
        """The message that ``data`` (bytes-like) holds at ``version``.

        ``budget`` bounds the number of array elements and unknown tagged fields in all. Raises
        DecodeError, with field path and offset, for anything that does not follow the protocol,
        bytes left over included unless ``allow_trailing``; UnsupportedVersion.
        """
        message: Self
        if data.__class__ is not bytes:
            data = bytes(data)
        # The fast path for nearly every call. Any fault falls through to the slow path, which
        # finds the field and the offset.
        if budget is None and len(data) <= _COLLECTOR_PAUSE_BYTES:
            try:
                message, end = cls._DECODERS[version](data, 0, _NO_BUDGET)
                if end == len(data):
                    return message
            except _SHORT_WAY_FAULTS:
                pass
        message, end = cls.decode_from(data, version, budget=budget)
        if end != len(data) and not allow_trailing:
            left = len(data) - end
            raise DecodeError(
                f"{left} byte{'s' * (left > 1)} left over behind {cls.NAME}",
                offset=end,
                rule="trailing-bytes",
            )
        return message

    @classmethod
    def decode_from(
        cls, data: bytes, version: int, offset: int = 0, *, budget: int | None = None
    ) -> tuple[Self, int]:
        """As :meth:`decode`, from ``offset`` of ``data``: (message, position after it)."""
        decoder = cls._DECODERS.get(version)
        if decoder is None:
            raise unsupported(cls, version)
        allowed = _NO_BUDGET if budget is None else budget
        # Decoding makes objects by the thousand and not one cycle: the collector only costs, a
        # third of a large message.
        pause = len(data) - offset > _COLLECTOR_PAUSE_BYTES and gc.isenabled()
        if pause:
            gc.disable()
        try:
            message, end = decoder(data, offset, allowed)
            if end <= len(data):
                return message, end
            error: Exception = DecodeError("the message is longer than its bytes", rule="truncated")
        except _READ_FAULTS as caught:
            error = caught
        finally:
            if pause:
                gc.enable()
        from kwire.diagnose import explain_decode

        try:
            raise explain_decode(cls, data, version, offset, allowed, error) from None
        finally:
            # its traceback holds this frame: together they and every caller's frame would be a
            # reference cycle
            del error

    def to_json(self, version: int) -> dict[str, Any]:
        """The form that Kafka's JsonConverter writes, as Python values: bytes in base64, tagged
        defaults left out.

        Raises EncodeError for a value the version cannot carry, UnsupportedVersion.
        """
        from kwire.jsonform import to_json

        return to_json(self, version)

    @classmethod
    def from_json(cls, value: Any, version: int) -> Self:
        """Read the form of :meth:`to_json`. Raises DecodeError naming the member,
        UnsupportedVersion.
        """
        from kwire.jsonform import from_json

        message = from_json(cls, value, version)
        assert isinstance(message, cls)
        return message


def unsupported(cls: type[Message], version: int) -> UnsupportedVersion:
    """The error for a version that ``cls`` does not have."""
    low, high = cls.VERSIONS[0], cls.VERSIONS[-1]
    return UnsupportedVersion(f"{cls.NAME} has versions {low} to {high}, not {version}")


def frozen_default(cls: type[_S]) -> _S:
    """The one default that readers put where a tagged struct is absent: equal to ``cls()``, but it
    cannot be changed.
    """
    frozen = _Maker(
        cls.__name__,
        (cls,),
        {"__slots__": (), "__setattr__": _refuse_change, "__module__": cls.__module__},
    )
    value = cls()
    value.__class__ = frozen  # type: ignore[assignment]
    return value


def _refuse_change(self: Struct, name: str, value: Any) -> None:
    raise AttributeError(
        f"this {self.NAME} is the shared default of an absent field: assign a new"
        f" {self.NAME}({name}=...) instead"
    )


def generated_class(cls: type[Any]) -> type[Any]:
    """The generated class behind a frozen default's."""
    return cls.__base__ if "__setattr__" in cls.__dict__ else cls  # type: ignore[return-value]


def _rebuild(cls: type[Struct], values: list[Any]) -> Struct:
    made = bare(cls)()
    for row, value in zip((*cls.FIELDS, (None, "unknown_tags")), values, strict=True):
        setattr(made, row[1], value)
    return made


def _copy(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.copy()
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value


def _short(value: Any) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, memoryview) else repr(value)
