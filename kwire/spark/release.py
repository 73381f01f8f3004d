"""Checks the release of PySpark. ``kwire.spark`` refuses an unsupported one when it is imported."""

from __future__ import annotations

from typing import Final

#: With these the tests are run.
SUPPORTED: Final = ("4.2", "4.3")


def check_release(version: str) -> None:
    """Raise ImportError, which names the supported releases, for another PySpark ``version``."""
    if ".".join(version.split(".")[:2]) not in SUPPORTED:
        raise ImportError(
            f"kwire.spark runs with PySpark {' and '.join(SUPPORTED)}, and this is {version}: pip"
            " install 'kwire[spark]'"
        )
