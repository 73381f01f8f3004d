"""Makes the history and the current state of entities from the changes of
``format("kwire-changes")``, by Spark's own functions: no Python runs for a row.

    from kwire.spark import history
    history(changes, "topics").where("validToOffset IS NULL").show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kwire.records.redact import REDACTED
from kwire.spark.table.arrow import SINCE, UNTIL, spark_columns
from kwire.spark.table.kinds import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SINCE, _UNTIL = tuple(SINCE), tuple(UNTIL)
_KINDS: Final = {kind.table: kind for kind in KINDS}
#: The fold cannot compare secrets, so that each time one is written begins a version.
_SECRET: Final = (
    f"entity = 'user' OR (entity = 'config' AND get_json_object(after, '$.value') <=> '{REDACTED}')"
)


def history(changes: DataFrame, name: str) -> DataFrame:
    """Every version of the entities of ``name`` (``topics``, ``partitions``, ...) that ever was, in
    the columns of ``read_table(..., history=True)`` behind ``cluster_id``.

    ``changes`` has the columns of ``format("kwire-changes")``. Raises ValueError for an unknown
    name.
    """
    if name not in _KINDS:
        raise ValueError(f"tables are {', '.join(_KINDS)}, not {name!r}")
    kind = _KINDS[name]
    mine = changes.where(F.col("entity") == kind.entity)
    made = mine.where(f"NOT before <=> after OR (after IS NOT NULL AND ({_SECRET}))")
    # Changes within a metadata transaction are one version.
    versions = made.groupBy("cluster_id", "key", "effectiveOffset").agg(
        F.max_by("after", F.struct("offset", "n")).alias("after"),
        F.max("effectiveTime").alias("effectiveTime"),
    )
    began = F.struct("effectiveOffset", "effectiveTime")
    following = Window.partitionBy("cluster_id", "key").orderBy("effectiveOffset")
    resets = (
        changes.where("op = 'reset'")
        .groupBy("cluster_id")
        .agg(F.collect_list(began).alias("resets"))
    )
    ended = F.least(
        F.lead(began).over(following),
        F.array_min(
            F.filter("resets", lambda one: one["effectiveOffset"] > F.col("effectiveOffset"))
        ),
    )
    # A pipeline does not see what a flow reads through withColumn (PySpark 4.3), and would
    # run it beside the flow of ``changes``: only select here.
    rows = versions.join(F.broadcast(resets), "cluster_id", "left").select(
        "*", ended.alias("ended")
    )
    fields = F.from_json("after", spark_columns(kind.columns)).alias("fields")
    return (
        rows.where("after IS NOT NULL")
        .select("cluster_id", fields, "effectiveOffset", "effectiveTime", "ended")
        .select(
            "cluster_id",
            "fields.*",
            F.col("effectiveOffset").alias(_SINCE[0]),
            F.col("effectiveTime").alias(_SINCE[1]),
            F.col("ended.effectiveOffset").alias(_UNTIL[0]),
            F.col("ended.effectiveTime").alias(_UNTIL[1]),
        )
    )
