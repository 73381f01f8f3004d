"""Provides what generated structs and messages share: fields, construction, equality, repr, copies.

It knows no versions of messages and no bytes: ``kwire.message`` encodes and decodes.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

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


def bare(cls: type[_S]) -> Callable[[], _S]:
    """A factory of objects of ``cls`` with nothing set, for generated readers, which set every
    attribute: the constructor takes three quarters of the time.
    """
    return functools.partial(object.__new__, cls)


class _StructType(type):
    """The type of generated classes. mypy would take the hash of objects for that of classes."""


class Struct(metaclass=_StructType):
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


def frozen_default(cls: type[_S]) -> _S:
    """The one default that readers put where a tagged struct is absent: equal to ``cls()``, but it
    cannot be changed.
    """
    frozen = _StructType(
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
