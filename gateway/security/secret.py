"""Holds a value that must never be printed: a password or a private key."""

from __future__ import annotations

import hmac
from typing import Final

#: Printed instead, as in Kafka (``org.apache.kafka.common.config.types.Password``).
HIDDEN: Final = "[hidden]"


class Secret:
    """Holds a text; only :meth:`reveal` returns it. repr, str, pickle and copy do not."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret text, for an authentication or to decrypt a private key."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(
            self._text.encode("utf-8", "surrogatepass"),
            other._text.encode("utf-8", "surrogatepass"),
        )

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written down")
