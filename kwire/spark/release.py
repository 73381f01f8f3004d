"""Checks the release of PySpark. ``kwire.spark`` refuses an unsupported one when it is imported."""

from __future__ import annotations

from typing import Final

from kwire.jars.table_formats import FORMATS

#: With these the tests are run.
SUPPORTED: Final = ("4.2", "4.3")


def check_release(version: str, *, fleet: bool = False) -> None:
    """Raise ImportError, which names the supported releases, for another PySpark ``version``; with
    ``fleet`` one that has a table format with MERGE passes, too.
    """
    release = ".".join(version.split(".")[:2])
    if release not in SUPPORTED and not (fleet and release in FORMATS):
        raise ImportError(
            f"kwire.spark runs with PySpark {' and '.join(SUPPORTED)}, and this is {version}: pip"
            " install 'kwire[spark]'"
        )
