"""Tells which table format runs with which PySpark, and fetches its jars (``kwire spark jars
--format``). It imports no PySpark.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kwire.jars.maven import MavenError, resolve
from kwire.jars.spark import DELTA_FOR, SparkJars, delta_jars

#: The Iceberg that is built for a release of PySpark and was run with it.
ICEBERG: Final[Mapping[str, str]] = MappingProxyType({"4.0": "1.11.0", "4.1": "1.12.0"})
#: The format of each release of PySpark that runs one with MERGE, the newest last. Delta runs a
#: MERGE with 4.0, too.
FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {**dict.fromkeys(ICEBERG, "iceberg"), DELTA_FOR: "delta"}
)
#: The newest of them, by format.
NEWEST: Final[Mapping[str, str]] = MappingProxyType(
    {format: release for release, format in FORMATS.items()}
)

#: In a directory of the fleet's tables: what the table of clusters has in each format.
_OF_CLUSTERS: Final = {"delta": "clusters/_delta_log", "iceberg": "clusters/metadata"}


def format_at(directory: str) -> str | None:
    """Return the format of the fleet's tables in a directory; None where there are none."""
    found = (one for one, name in _OF_CLUSTERS.items() if (Path(directory) / name).is_dir())
    return next(found, None)


def format_of(pyspark: str | None = None) -> str:
    """Return the format for PySpark ``pyspark`` (the installed one by default). Raises MavenError
    where none runs.
    """
    version = pyspark or metadata.version("pyspark")
    found = FORMATS.get(".".join(version.split(".")[:2]))
    if found is None:
        raise MavenError(
            f"no table format with MERGE runs with PySpark {version}: install PySpark"
            f" {' or '.join(f'{release} for {one}' for one, release in NEWEST.items())}"
        )
    return found


def format_jars(format: str, pyspark: str | None = None) -> SparkJars:
    """Return the jars of ``format`` for PySpark ``pyspark`` (the installed one by default). Raises
    MavenError.
    """
    version = pyspark or metadata.version("pyspark")
    if format == "delta":
        return delta_jars(version)
    release = ".".join(version.split(".")[:2])
    if FORMATS.get(release) != format:
        raise MavenError(f"{format} was not run with PySpark {version}")
    runtime = f"org.apache.iceberg:iceberg-spark-runtime-{release}_2.13:{ICEBERG[release]}"
    return SparkJars(tuple(resolve([runtime])), f"Iceberg {ICEBERG[release]} for PySpark {release}")
