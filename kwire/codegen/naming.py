"""Converts Kafka's names to Python's: ``FetchRequest`` is in ``fetch_request``, ``MaxWaitMs``
becomes ``max_wait_ms``.
"""

from __future__ import annotations

import builtins
import keyword
import re

_ACRONYM = re.compile(r"([A-Z]+)([A-Z][a-z])")
_WORD = re.compile(r"([a-z0-9])([A-Z])")

#: Names that every generated class has already; a field of that name gets a trailing underscore.
RESERVED = frozenset(
    [
        "encode",
        "decode",
        "decode_from",
        "to_json",
        "from_json",
        "copy",
        "unknown_tags",
        "NAME",
        "TYPE",
        "API_KEY",
        "VERSIONS",
        "FLEXIBLE_VERSIONS",
        "HEADER_VERSIONS",
        "SCHEMA",
    ]
)


def snake(name: str) -> str:
    """``ClientHostIP`` -> ``client_host_ip``; names that begin small are only split."""
    return _WORD.sub(r"\1_\2", _ACRONYM.sub(r"\1_\2", name)).lower()


def attribute(name: str) -> str:
    """The attribute that holds schema field ``name``: snake case, never a keyword or a method of
    the class.
    """
    attr = snake(name)
    return attr + "_" if keyword.iskeyword(attr) or attr in RESERVED else attr


def json_name(name: str) -> str:
    """The member name in Kafka's JSON form: the schema's name with a small first letter."""
    return name[:1].lower() + name[1:]


def class_name(name: str) -> str:
    """The Python class of a struct: the schema's name, with a trailing underscore where it would
    hide a builtin.
    """
    name = name[:1].upper() + name[1:]
    return name + "_" if hasattr(builtins, name) else name
