"""What a configuration key is: its type, default and limits, and how Kafka reads a value of it
(``ConfigDef``).

Knows none of the keys, and no request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kwire.protocol import ConfigSource, ConfigType

__all__ = ["ConfigError", "ConfigKey", "ConfigSource", "ConfigType", "Synonym", "Value", "written"]


Value = bool | int | float | str | list[str]

_BITS: Final = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)"
)
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[dDfF]?"
)
_COMMA: Final = re.compile(r"\s*,\s*")
#: Java writes a double without an exponent from here up to there, and with one elsewhere
#: (``Double.toString``).
_PLAIN_DOUBLES: Final = (1e-3, 1e7)


class ConfigError(Exception):
    """A value that a key cannot have, or a key that there is not; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker's key that sets the default of a topic's. ``factor``: milliseconds in one unit of
    it.
    """

    name: str
    default: str | None = None
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. ``default`` is as in a properties file, None where nothing is set.

    ``low`` and ``high`` limit a number; ``choices`` are the values of a string, or the elements of
    a list; ``check`` says what is wrong with a value that got so far. ``synonyms`` in the order in
    which they count. ``per_broker``: a broker has its own, there is none for all.
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

    def parse(self, text: str) -> Value:
        """The value that ``text`` says. Raises ConfigError."""
        value = self._read(text.strip())
        fault = self._fault(value)
        if fault is not None:
            raise ConfigError(f"Invalid value {text} for configuration {self.name}: {fault}")
        return value

    def canonical(self, text: str) -> str:
        """``text`` as Kafka shows it once it has read it; as it is where it cannot be read."""
        try:
            return written(self._read(text.strip()))
        except ConfigError:
            return text

    def _read(self, text: str) -> Value:
        match self.type:
            case ConfigType.BOOLEAN:
                if text.lower() not in ("true", "false"):
                    raise self._unreadable(text, "Expected value to be either true or false")
                return text.lower() == "true"
            case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                return self._integer(text)
            case ConfigType.DOUBLE:
                return self._double(text)
            case ConfigType.LIST:
                return _COMMA.split(text) if text else []
            case _:
                return text

    def _integer(self, text: str) -> int:
        limit = 1 << (_BITS[self.type] - 1)
        # Nothing longer is looked at: reading digits takes the square of their number.
        if len(text) <= 64 and _INTEGER.fullmatch(text) and -limit <= int(text) < limit:
            return int(text)
        raise self._unreadable(text, f"Not a number of type {self.type.name}")

    def _double(self, text: str) -> float:
        if _DECIMAL.fullmatch(text):
            return float(text.rstrip("dDfF") if not text.endswith("Infinity") else text)
        if found := _HEXADECIMAL.fullmatch(text):
            try:
                return float.fromhex(found[1])
            except OverflowError:
                return float("inf")
        raise self._unreadable(text, f"Not a number of type {self.type.name}")

    def _unreadable(self, text: str, why: str) -> ConfigError:
        return ConfigError(f"Invalid value {text} for configuration {self.name}: {why}")

    def _fault(self, value: Value) -> str | None:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            # Not a number is neither below nor above anything, here as in Java.
            if self.low is not None and value < self.low:
                return f"Value must be at least {self.low}"
            if self.high is not None and value > self.high:
                return f"Value must be no more than {self.high}"
        if isinstance(value, list) and not all(value):
            return "its elements must not be empty"
        if self.choices and any(
            one not in self.choices for one in (value if isinstance(value, list) else [value])
        ):
            return f"must be one of: {', '.join(self.choices)}"
        return self.check(value) if self.check is not None else None


def written(value: Value) -> str:
    """A value in the form of a properties file, as Java writes it (``ConfigDef.convertToString``)."""
    match value:
        case bool():
            return str(value).lower()
        case list():
            return ",".join(value)
        case float():
            return _double_text(value)
        case _:
            return str(value)


def _double_text(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value)
    if value == 0 or _PLAIN_DOUBLES[0] <= abs(value) < _PLAIN_DOUBLES[1]:
        return text
    mantissa, _, exponent = f"{value:e}".partition("e") if "e" not in text else text.partition("e")
    if (
        "e" not in text
    ):  # Python writes it without an exponent: move the point to behind the first digit
        digits = text.replace("-", "").replace(".", "").strip("0")
        mantissa = f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}"
    elif "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
