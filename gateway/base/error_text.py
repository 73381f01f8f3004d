"""Writes error codes and error messages as text for people and for clients.

An error message often quotes a name from the request. A string of the protocol holds at most 32,767
bytes, so a message that quotes a name of that length would not fit.
"""

from __future__ import annotations

from typing import Final, overload

from kwire.printable import printable
from kwire.protocol import ErrorCode

#: Longest text of a peer in a field of the log, characters.
TEXT_MAX: Final = 100
#: Longest error message of this server that may quote a peer, characters.
ERROR_MAX: Final = 400

#: Characters of a message that are kept: from its beginning, and from its end.
HEAD: Final = 700
TAIL: Final = 200


@overload
def error_text(text: str) -> str: ...
@overload
def error_text(text: None) -> None: ...
def error_text(text: str | None) -> str | None:
    """Return ``text``, without its middle if it is long: beginning and end name the error."""
    if text is None or len(text) <= HEAD + TAIL:
        return text
    left_out = len(text) - HEAD - TAIL
    return f"{text[:HEAD]}...({left_out} characters left out)...{text[-TAIL:]}"


def error_with_code(code: int) -> str:
    """Name an error code in a sentence: ``NOT_LEADER_OR_FOLLOWER (6)``, or ``error code 999`` for
    one that Kafka does not have. ``kwire.protocol.error_name`` returns the name alone.
    """
    try:
        return f"{ErrorCode(code).name} ({code})"
    except ValueError:
        return f"error code {code}"


def escape(text: str | None, *, limit: int = TEXT_MAX) -> str | None:
    """Make a peer's text safe for one line of a log.

    Control characters are escaped; the text is cut at ``limit`` characters.
    """
    if text is None:
        return None
    return printable(text[:limit]) + ("…" if len(text) > limit else "")
