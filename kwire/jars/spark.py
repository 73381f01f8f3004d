"""Fetches the jars of Spark's Kafka source for the installed PySpark (``kwire spark jars``).

It asks Maven for the connector of PySpark's own version first. If that is incomplete, it takes the
newest set of released jars that passed tests together. PySpark has everything else that the
connector needs. It imports no PySpark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from kwire.jars.maven import MavenError, resolve

#: Of the clients any 3.9 or 4.x serves; this is the one that Spark 4.2's connector names.
CLIENTS = "3.9.2"
#: Connector and token provider that were run with a release of PySpark. The provider matters for
#: delegation tokens only.
FALLBACKS = {
    "4.0": ("4.0.1", "4.0.0"),
    "4.1": ("4.1.1", "4.1.1"),
    "4.2": ("4.2.0", "4.0.0"),
    "4.3": ("4.2.0", "4.0.0"),
}
#: For a day Maven is not asked again for a missing connector.
KEEP_MISSING_S = 86_400

#: Delta for PySpark 4.2. By name, because what these name in turn is in PySpark already, some of it
#: in other versions.
DELTA, DELTA_FOR = "4.4.0", "4.2"
_DELTA_JARS = (
    *(
        f"io.delta:{name}:{DELTA}"
        for name in (
            "delta-spark_2.13",
            "delta-storage",
            "delta-kernel-api",
            "delta-kernel-defaults",
        )
    ),
    f"io.delta:delta-kernel-unitycatalog:{DELTA}",
    "io.unitycatalog:unitycatalog-client:0.6.0",
    "io.unitycatalog:unitycatalog-hadoop:0.6.0",
)


@dataclass(frozen=True)
class SparkJars:
    """The jars, and one sentence that names them. As text it is the paths with commas between, as
    ``spark.jars`` takes them.
    """

    paths: tuple[Path, ...]
    which: str

    def __str__(self) -> str:
        return ",".join(map(str, self.paths))


def spark_jars(pyspark: str | None = None) -> SparkJars:
    """The jars for PySpark ``pyspark`` (the installed one by default), from Maven or its cache.
    Raises MavenError.
    """
    version = pyspark or metadata.version("pyspark")
    try:
        paths = resolve(coordinates(version, version), keep_missing_s=KEEP_MISSING_S)
        return SparkJars(
            tuple(paths), f"the connector of PySpark {version} itself, with kafka-clients {CLIENTS}"
        )
    except MavenError as error:
        fallback = FALLBACKS.get(".".join(version.split(".")[:2]))
        if fallback is None:
            raise
        own = error
    connector, tokens = fallback
    try:
        paths = resolve(coordinates(connector, tokens))
    except MavenError as error:
        raise MavenError(f"{own}\nand neither the set that works with it:\n{error}") from None
    return SparkJars(
        tuple(paths),
        f"Maven lacks the connector of PySpark {version} or a part of it: connector"
        f" {connector}, token provider {tokens} and kafka-clients {CLIENTS},"
        " which work together except for delegation tokens",
    )


def delta_jars(pyspark: str | None = None) -> SparkJars:
    """The jars of Delta for PySpark ``pyspark`` (the installed one by default). Raises
    MavenError.
    """
    version = pyspark or metadata.version("pyspark")
    if not version.startswith(f"{DELTA_FOR}."):
        raise MavenError(f"Delta {DELTA} is built for PySpark {DELTA_FOR}, and this is {version}")
    return SparkJars(
        tuple(resolve(_DELTA_JARS)), f"Delta {DELTA}, which is built for PySpark {DELTA_FOR}"
    )


def coordinates(connector: str, tokens: str) -> Sequence[str]:
    """Maven coordinates of the four jars. Scala 2.13 is the only one that Spark 4 has."""
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{tokens}",
        f"org.apache.kafka:kafka-clients:{CLIENTS}",
        "org.apache.commons:commons-pool2:2.13.1",
    )
