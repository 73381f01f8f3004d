"""Fetches and prepares the files that the interoperability tests need: ``python -m
tools.prefetch``.

``make test`` runs it beside the checks, which get most of a processor that both want. A part that
fails is reported, but the exit status is 0: the tests that need it try again, and report what is
missing.
"""

from __future__ import annotations

import functools
import subprocess
import time
from collections.abc import Callable
from importlib import metadata

from kwire.jars.maven import MavenError, resolve
from kwire.jars.object_stores import s3_jars
from kwire.jars.spark import spark_jars
from kwire.jars.table_formats import FORMATS, format_jars
from tools import class_archive, connect, java, pyspark_release, spark_home, streams_jars
from tools.java import JavaError
from tools.process import ProcessError, run_behind_others
from tools.pyspark_release import InstallError

#: Releases of Kafka that the tests run beside the usual one.
_RELEASES = ("4.4.0", "4.1.2")


def main() -> None:
    run_behind_others()
    for name, part in _parts().items():
        began = time.monotonic()
        try:
            part()
            result = "is there"
        except (
            InstallError,
            JavaError,
            MavenError,
            ProcessError,
            metadata.PackageNotFoundError,
            OSError,
            subprocess.SubprocessError,
        ) as error:
            result = f"is missing: {error}"
        print(f"prefetch: {name} {result}, {time.monotonic() - began:.1f} s", flush=True)


def _parts() -> dict[str, Callable[[], object]]:
    kafka = {
        f"Kafka {version}": lambda version=version: java.class_path(version)
        for version in _RELEASES
    }
    shell = [f"org.apache.kafka:kafka-shell:{java.KAFKA_VERSION}"]
    return {
        f"Kafka {java.KAFKA_VERSION} with archived classes": class_archive.make,
        "Spark's Kafka source": spark_jars,
        "PySpark with archived classes": spark_home.make_archive,
        **{
            f"PySpark {release} with its jars": functools.partial(_other_pyspark, release)
            for release in FORMATS
        },
        **{
            f"{one} for PySpark {release}": functools.partial(format_jars, one, f"{release}.0")
            for release, one in FORMATS.items()
        },
        **{
            f"S3's client for PySpark {release}": functools.partial(s3_jars, f"{release}.0")
            for release in FORMATS
        },
        **kafka,
        "Kafka Connect's file sink": connect.file_jars,
        "Kafka Streams": streams_jars.jars,
        "Kafka's shell": lambda: resolve(shell, transitive=True),
    }


def _other_pyspark(release: str) -> None:
    """The environment of ``tests/interop/spark_release.py``, and the jars for it. To archive its
    classes would take longer than its few drivers gain.
    """
    python = str(pyspark_release.environment(release))
    command = [python, "-m", "gateway", "spark", "jars"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise JavaError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")


if __name__ == "__main__":
    main()
