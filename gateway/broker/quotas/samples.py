"""Measures a rate over the last windows of time (``SampledStat``, ``WindowedSum``, ``Rate``).

A rate is the sum over the samples of the last windows, divided by their time: never less than all
windows but one, so that a first burst is measured as if nothing had come before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """``samples`` windows of ``window_ms`` are measured: ``quota.window.num`` and
    ``quota.window.size.seconds``.
    """

    samples: int = 11
    window_ms: int = 1000


class _Sample:
    __slots__ = ("began_ms", "events", "last_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.total = 0.0
        self.events = 0


class Samples:
    """Values that were recorded in the last windows. Moments are ms of one clock, in order."""

    __slots__ = ("_current", "_samples", "_settings")

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add ``value``; one that is negative takes a value back."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.began_ms >= self._settings.window_ms:
            sample = self._advance(now_ms)
        sample.total += value
        sample.events += 1
        sample.last_ms = now_ms

    def rate(self, now_ms: int) -> float:
        """The values per second."""
        total = self._total(now_ms)
        return total * _MS / self.measured_ms(now_ms)

    def simple_rate(self, now_ms: int) -> float:
        """The values per second since the oldest sample, over one window at least
        (``SimpleRate``): a first burst counts in full.
        """
        total = self._total(now_ms)
        began_ms = min((sample.began_ms for sample in self._samples), default=now_ms)
        return total * _MS / max(now_ms - began_ms, self._settings.window_ms)

    def mean(self, now_ms: int) -> float | None:
        """The mean of the values; None if there are none."""
        total = self._total(now_ms)
        events = sum(sample.events for sample in self._samples)
        return total / events if events else None

    def measured_ms(self, now_ms: int) -> int:
        """The time that the rate is over (``Rate.windowSize``)."""
        self._purge(now_ms)
        began_ms = min((sample.began_ms for sample in self._samples), default=now_ms)
        elapsed_ms = now_ms - began_ms
        missing = self._settings.samples - 1 - elapsed_ms // self._settings.window_ms
        return max(1, elapsed_ms + max(0, missing) * self._settings.window_ms)

    def _total(self, now_ms: int) -> float:
        self._purge(now_ms)
        return sum(sample.total for sample in self._samples)

    def _advance(self, now_ms: int) -> _Sample:
        # One more than are measured: the oldest reaches into the measured time with its end.
        self._current = (self._current + 1) % (self._settings.samples + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _purge(self, now_ms: int) -> None:
        """Empty the samples whose last value is older than all windows."""
        oldest_ms = now_ms - self._settings.samples * self._settings.window_ms
        for sample in self._samples:
            if sample.last_ms <= oldest_ms:
                sample.reset(now_ms)
