"""Says which word was likely meant by one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def or_guess(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that says that ``word`` is not known: the likeliest of ``known`` if one
    is like it, or all of them.
    """
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(word.lower(), by_lower, 1)
    if close:
        return f"; did you mean {by_lower[close[0]]!r}?"
    return f"; there are {', '.join(by_lower.values())}"
