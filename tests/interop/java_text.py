"""Writes values as Java prints those that Connect's ``JsonConverter`` makes of them."""

from __future__ import annotations

import re
from typing import Any


def java_text(value: Any, schema: Any) -> str:
    """``toString`` of a value that Connect reads by ``schema``: a Struct leaves out null members.

    The order of maps is not that of Java: compare :func:`pieces`.
    """
    match schema["type"]:
        case "struct":
            members = (
                f"{one['field']}={java_text(value[one['field']], one)}"
                for one in schema["fields"]
                if value[one["field"]] is not None
            )
            return f"Struct{{{','.join(members)}}}"
        case "array":
            return f"[{', '.join(java_text(one, schema['items']) for one in value)}]"
        case "map":
            members = (f"{name}={java_text(one, schema['values'])}" for name, one in value.items())
            return f"{{{', '.join(members)}}}"
        case "boolean":
            return str(value).lower()
        case "double":
            return _double(value)
    return str(value)


def _double(value: float) -> str:
    """``Double.toString`` from 0.001 on."""
    if value < 10_000_000:
        return repr(float(value))
    digits, _, exponent = f"{value:.15e}".partition("e")
    return f"{float(digits)!r}E{int(exponent)}"


def pieces(text: str) -> list[str]:
    """The text between brackets and commas, sorted."""
    return sorted(one.strip() for one in re.split(r"[][{},]", text))
