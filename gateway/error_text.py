"""Error messages for clients, cut to a bounded length. Pure; it knows no message that carries them.

An error message often quotes a name from the request. A string of the protocol holds 32,767 bytes,
so that a message which quotes a name of that size would not fit the answer.
"""

from __future__ import annotations

from typing import Final, overload

#: Characters of a message that are kept: from its beginning, and from its end.
HEAD: Final = 700
TAIL: Final = 200


@overload
def error_text(text: str) -> str: ...
@overload
def error_text(text: None) -> None: ...
def error_text(text: str | None) -> str | None:
    """``text`` without its middle where it is long; beginning and end are kept, as they say what
    the error is.
    """
    if text is None or len(text) <= HEAD + TAIL:
        return text
    left_out = len(text) - HEAD - TAIL
    return f"{text[:HEAD]}...({left_out} characters left out)...{text[-TAIL:]}"
