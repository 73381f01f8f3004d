"""Which releases of PySpark kwire runs with; the others are refused when ``kwire.spark`` is
imported.
"""

from __future__ import annotations

from typing import Final

#: With these the tests are run.
SUPPORTED: Final = ("4.2", "4.3")


def check_release(version: str) -> None:
    """Raises ImportError, which says what to install, for a PySpark ``version`` that kwire was not
    run with.
    """
    if ".".join(version.split(".")[:2]) not in SUPPORTED:
        raise ImportError(
            f"kwire.spark runs with PySpark {' and '.join(SUPPORTED)}, and this is {version}: pip"
            " install 'kwire[spark]'"
        )
