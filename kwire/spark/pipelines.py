"""Lets Spark Declarative Pipelines read kwire's formats, and writes a project of them:
``kwire spark init``.

    from kwire.spark.pipelines import prepare
    prepare(spark)                      # in a file of flows, before the first flow
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The files of a project, and the templates that they are made of.
FILES: Final = {
    "spark-pipeline.yml": "spark-pipeline.yml",
    "flows/metadata.py": "metadata.py.txt",
}
#: The command that runs a project, in its directory.
RUN: Final = "spark-pipelines run --conf spark.sql.catalogImplementation=hive"
_CATALOG: Final = "spark.sql.catalogImplementation"
_FORGETS: Final = "in-memory"
_INTERNAL: Final = "__python_accumulator__"


def write_project(directory: Path, sources: Sequence[str]) -> list[Path]:
    """Write a project that reads ``sources`` into ``directory``, which is made, and return its
    files. Raises FileExistsError if one of them is there, and then writes none; OSError.
    """
    templates = resources.files("kwire.spark") / "project"
    texts = {
        directory / name: (templates / template).read_text(encoding="utf-8")
        for name, template in FILES.items()
    }
    for path in texts:
        if os.path.lexists(path):
            raise FileExistsError(f"{path} is there already; take another directory")
    values = {
        "name": json.dumps(directory.absolute().name),
        "storage": json.dumps((directory.absolute() / "storage").as_uri()),
        "sources": json.dumps(list(sources), indent=4),
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text.format(**values))
    return list(texts)


def prepare(spark: SparkSession) -> None:
    """Make ``format("kwire")`` and ``format("kwire-changes")`` known to the session of a pipeline.

    Raises ValueError in a pipeline whose catalog forgets the tables when the session ends: the next
    run would find their files, and no tables.
    """
    from pyspark.sql.utils import is_remote

    from kwire.spark.source.data_source import register
    from kwire.spark.table.change_source import register_changes

    if _in_pipeline() and _is_builtin(spark) and spark.conf.get(_CATALOG, _FORGETS) == _FORGETS:
        raise ValueError(
            "the catalog is in memory, so its tables would be lost when the pipeline ends; run the"
            f" pipeline with: {RUN}"
        )
    register(spark)
    register_changes(spark)
    if is_remote():
        _leave_out_accumulators(spark.client)


def _in_pipeline() -> bool:
    """True while spark-pipelines reads a file of flows."""
    from pyspark.errors import PySparkException
    from pyspark.pipelines.graph_element_registry import get_active_graph_element_registry

    try:
        get_active_graph_element_registry()
    except PySparkException:
        return False
    return True


def _is_builtin(spark: SparkSession) -> bool:
    """True if tables go to Spark's session catalog, and no library has taken its place."""
    return (
        spark.conf.get("spark.sql.defaultCatalog", "spark_catalog") == "spark_catalog"
        and spark.conf.get("spark.sql.catalog.spark_catalog", "builtin") == "builtin"
    )


def _leave_out_accumulators(client: Any) -> None:
    """PySpark 4.2 and 4.3 end a run with UNKNOWN_RESPONSE, after its tables are written, if a
    source in Python was planned: the client of Spark Connect does not know the message of internal
    accumulators there. It has taken their values before it passes the message on, so nothing is
    lost without it.
    """
    received = client._execute_and_fetch_as_iterator

    def others(*given: Any, **named: Any) -> Iterator[Any]:
        return (one for one in received(*given, **named) if getattr(one, "name", "") != _INTERNAL)

    client._execute_and_fetch_as_iterator = others
