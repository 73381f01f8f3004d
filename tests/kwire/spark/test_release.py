"""A PySpark that kwire was never run with is refused by a sentence, not by what breaks first."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.spark.release import check_release

_OTHER = "import pyspark; pyspark.__version__ = '3.5.6'; import kwire.spark"
_FLEET = "import pyspark; pyspark.__version__ = '4.0.5'; import kwire.spark.fleet"


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.3.1.dev0"])
def test_supported_releases_pass(version: str) -> None:
    check_release(version)


@pytest.mark.parametrize("version", ["3.5.6", "4.1.0", "4.20.0", "5.0.0"])
def test_other_releases_are_refused(version: str) -> None:
    with pytest.raises(
        ImportError, match=f"PySpark 4.2 and 4.3, and this is {version}: pip install"
    ):
        check_release(version)


def test_release_is_checked_before_other_imports() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OTHER], capture_output=True, text=True, check=False
    )
    assert (
        "ImportError: kwire.spark runs with PySpark 4.2 and 4.3, and this is 3.5.6" in done.stderr
    )


def test_release_of_the_fleet_alone_imports_the_fleet_and_refuses_the_rest() -> None:
    command = f"{_FLEET}\nfrom kwire.spark import tables"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("ImportError: kwire.spark runs with PySpark 4.2")
    assert "line 2" in done.stderr
