"""A clock that tests move."""

from __future__ import annotations


class Clock:
    """Seconds; call it to read them."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    @property
    def ms(self) -> int:
        return int(self.now * 1000)
