"""Defines a configuration key (type, default, limits), and parses values as Kafka does
(``ConfigDef``).

It knows no key and no request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.base.java.text import parse_boolean, parse_double, parse_integer, split_list, trim
from kwire.protocol import ConfigSource, ConfigType

__all__ = ["ConfigError", "ConfigKey", "ConfigSource", "ConfigType", "Synonym", "Value", "written"]


Value = bool | int | float | str | list[str]

#: Java's sizes: Python's integers have none.
_BITS: Final = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}
#: Java writes a double without an exponent from the first up to the second number, and with one
#: elsewhere (``Double.toString``).
_PLAIN_DOUBLES: Final = (1e-3, 1e7)


class ConfigError(Exception):
    """A value that a key cannot have, or an unknown key; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker's key that sets the default of a topic's key. ``factor``: one unit of it in units of
    the topic's key (an hour in ms).
    """

    name: str
    default: str | None = None
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. ``default`` is as in a properties file, None without a default.

    ``low`` and ``high`` limit a number, both included. ``choices`` are the valid strings, or the
    valid elements of a list. ``check`` returns the fault of a value that passes the other checks,
    or None. ``synonyms`` are in order of precedence. ``per_broker``: each broker has its own value,
    and the cluster-wide default cannot set it. ``is_set``: no element of a list is empty, and each
    counts once (``ValidList``, KIP-1161).
    """

    name: str
    type: ConfigType
    default: str | None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    synonyms: tuple[Synonym, ...] = ()
    check: Callable[[Value], str | None] | None = None
    help: str = ""
    per_broker: bool = False
    is_set: bool = True

    def parse(self, text: str) -> Value:
        """Return the value of ``text``. Raises ConfigError (``ConfigDef.parseType``)."""
        value = self._read(trim(text))
        fault = self._fault(value)
        if fault is not None:
            raise ConfigError(f"Invalid value {text} for configuration {self.name}: {fault}")
        return value

    def canonical(self, text: str) -> str:
        """Return ``text`` as Kafka shows it after it has parsed it; unchanged if it cannot be
        parsed.
        """
        try:
            return written(self._read(trim(text)))
        except ConfigError:
            # A value of a plug-in, or of an older release: it is shown as it was stored.
            return text

    def _read(self, text: str) -> Value:
        try:
            match self.type:
                case ConfigType.BOOLEAN:
                    return parse_boolean(text)
                case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                    return parse_integer(text, _BITS[self.type])
                case ConfigType.DOUBLE:
                    return parse_double(text)
                case ConfigType.LIST:
                    elements = split_list(text)
                    return list(dict.fromkeys(elements)) if self.is_set else elements
                case _:
                    return text
        except ValueError:
            why = (
                "Expected value to be either true or false"
                if self.type is ConfigType.BOOLEAN
                else f"Not a number of type {self.type.name}"
            )
            fault = f"Invalid value {text} for configuration {self.name}: {why}"
            raise ConfigError(fault) from None

    def _fault(self, value: Value) -> str | None:
        # True is an int in Python, and has no limits.
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            # NaN passes both, here as in Java: it is neither below nor above a limit.
            if self.low is not None and value < self.low:
                return f"Value must be at least {self.low}"
            if self.high is not None and value > self.high:
                return f"Value must be no more than {self.high}"
        if isinstance(value, list) and self.is_set and not all(value):
            return "its elements must not be empty"
        if self.choices and any(
            one not in self.choices for one in (value if isinstance(value, list) else [value])
        ):
            return f"must be one of: {', '.join(self.choices)}"
        return self.check(value) if self.check is not None else None


def written(value: Value) -> str:
    """Return a value in the form of a properties file (``ConfigDef.convertToString``)."""
    match value:
        # Before the numbers: True is an int in Python.
        case bool():
            return str(value).lower()
        case list():
            return ",".join(value)
        case float():
            return _double_text(value)
        case _:
            return str(value)


def _double_text(value: float) -> str:
    # NaN is the one value that differs from itself.
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    # The shortest digits that give the same double again, in Python as in Java since 19.
    text = repr(value)
    if value == 0 or _PLAIN_DOUBLES[0] <= abs(value) < _PLAIN_DOUBLES[1]:
        return text
    mantissa, _, exponent = f"{value:e}".partition("e") if "e" not in text else text.partition("e")
    if "e" not in text:
        # Python writes it without an exponent: the point moves behind the first digit. Zeros at
        # either end are places, not digits.
        digits = text.replace("-", "").replace(".", "").strip("0")
        mantissa = f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}"
    elif "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
