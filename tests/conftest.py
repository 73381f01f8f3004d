"""Fixtures for every test; a garbage collector that does not look at the same hundred thousand records again and again."""

import gc

from tests.shared import logs

__all__ = ["logs"]

# Tests hold whole logs and what they should be. With the usual thresholds that costs a third of all the time.
gc.set_threshold(100_000, 50, 100)
