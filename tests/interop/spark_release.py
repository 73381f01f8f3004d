"""Runs tests with another release of PySpark in an environment of its own
(``tools.pyspark_release``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from kwire.jars.spark import DELTA_FOR
from tests.interop.clients import missing
from tests.waiting import PATIENCE_S
from tools import pyspark_release

ROOT = Path(__file__).resolve().parent.parent.parent
#: The newest release that Delta is built for.
RELEASE = DELTA_FOR


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and the PySpark that is in it."""

    python: str
    pyspark: str

    def passes(self, tests: Sequence[str], into: Path) -> None:
        """Run ``tests`` here. Fails where one of them fails, and skips, if that is allowed, where
        one of them does.
        """
        report, began = into / "report.xml", time.monotonic()
        command = [
            self.python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            f"--basetemp={into / 'tmp'}",
        ]
        run = subprocess.run(
            [*command, *tests],
            cwd=ROOT,
            env=_environ(),
            capture_output=True,
            text=True,
            timeout=14 * PATIENCE_S,  # below the timeout of the tests that wait for it
            check=False,
        )
        assert run.returncode == 0, (
            f"with PySpark {self.pyspark}:\n{run.stdout[-20_000:]}\n{run.stderr[-5_000:]}"
        )
        cases = list(ElementTree.parse(report).iter("testcase"))
        if skipped := {str(one.get("message")) for case in cases for one in case.iter("skipped")}:
            missing(f"with PySpark {self.pyspark}: {'; '.join(sorted(skipped))}")
        assert len(cases) >= len(tests)
        print(f"PySpark {self.pyspark}: {len(cases)} tests in {time.monotonic() - began:.0f} s")


def _environ() -> dict[str, str]:
    """This process's environment without a named Spark. Python workers find kwire by its path,
    because it is not installed there.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "SPARK_HOME" and not name.startswith("PYSPARK_")
    }
    return {**kept, "PYTHONPATH": str(ROOT)}


def environment(release: str = RELEASE) -> Environment:
    """The environment with the newest PySpark of ``release``, made on first use. Skips, or fails,
    where it cannot be made.
    """
    if shutil.which("java") is None:
        missing("there is no Java on the PATH")
    try:
        python = str(pyspark_release.environment(release))
    except pyspark_release.InstallError as error:
        missing(f"an environment with PySpark {release} cannot be made: {error}")
    ask = [python, "-c", "import pyspark; print(pyspark.__version__)"]
    version = subprocess.run(
        ask, env=_environ(), capture_output=True, text=True, check=True
    ).stdout.strip()
    assert version.startswith(f"{release}.")
    return Environment(python, version)
