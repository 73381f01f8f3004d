"""Fetches the jars of Hadoop's own client of S3, ``s3a://``, for the installed PySpark. It imports
no PySpark.

Hadoop names Amazon's SDK as one bundle of half a gigabyte; these are the parts of it that the
client uses, in the release that the Hadoop of that PySpark was built with.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from types import MappingProxyType
from typing import Final

from kwire.jars.maven import MavenError, resolve
from kwire.jars.spark import SparkJars

S3: Final = "s3a://"
#: By release of PySpark: Hadoop, Amazon's SDK, and the reader that Hadoop's client loads, which
#: Hadoop 3.4.1 has not.
_RELEASES: Final[Mapping[str, tuple[str, str, str | None]]] = MappingProxyType(
    {
        "4.0": ("3.4.1", "2.29.52", None),
        "4.1": ("3.4.2", "2.29.52", "1.2.1"),
        "4.2": ("3.5.0", "2.35.4", "1.3.1"),
    }
)
_SDK_PARTS: Final = ("s3", "s3-transfer-manager", "sts", "apache-client")
#: PySpark has it, in another version.
_NOT_NEEDED: Final = "slf4j-api-"


def s3_jars(pyspark: str | None = None) -> SparkJars:
    """Return the jars for ``s3a://`` with PySpark ``pyspark`` (the installed one by default).
    Raises MavenError.
    """
    version = pyspark or metadata.version("pyspark")
    releases = _RELEASES.get(".".join(version.split(".")[:2]))
    if releases is None:
        raise MavenError(
            f"which client of S3 runs with PySpark {version} was not tried: give its jars with"
            " --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION"
        )
    hadoop, sdk, reader = releases
    client = resolve([f"org.apache.hadoop:hadoop-aws:{hadoop}"])
    named = [f"software.amazon.awssdk:{one}:{sdk}" for one in _SDK_PARTS]
    if reader is not None:
        named.append(f"software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:{reader}")
    parts = resolve(named, transitive=True)
    paths = (*client, *(one for one in parts if not one.name.startswith(_NOT_NEEDED)))
    return SparkJars(paths, f"Hadoop {hadoop}'s client of S3, with Amazon's SDK {sdk}")
