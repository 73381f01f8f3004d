"""Answers questions about a cluster's past with queries on the tables: ISR changes, leader moves,
config drift and so on.

    from kwire.spark.jobs import JOBS
    JOBS["topics"](spark, "/data/metadata").show()

Every job takes the session and the path of the tables (``kwire.spark.tables``) and returns a sorted
DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kwire.spark.questions import asked
from kwire.spark.table.places import CLUSTER
from kwire.spark.table.read import read_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Job = Callable[["SparkSession", str], "DataFrame"]

_PARTITION: Final = (
    "isr array<int>, replicas array<int>, addingReplicas array<int>, removingReplicas array<int>,"
    " leader int"
)
_ORDER: Final = (CLUSTER, "offset", "n")
#: The cluster where null is equal to null, as a join needs it.
_CLUSTER_OR: Final = "clusterOrNone"
#: A topic that lived less than this is short-lived.
SHORT_LIVED_S: Final = 3600


def _job(query: Job) -> Job:
    """The job of a query whose first column is the cluster, which is left out."""

    @wraps(query)
    def run(spark: SparkSession, path: str) -> DataFrame:
        return query(spark, path).drop(CLUSTER)

    return run


@_job
def isr(spark: SparkSession, path: str) -> DataFrame:
    """Return each change of an ISR: ``shrink``, ``expand`` or ``change``, and the brokers that left
    and joined.
    """
    return _isr_changes(spark, path).orderBy(*_ORDER).drop("n")


def _isr_changes(spark: SparkSession, path: str) -> DataFrame:
    both = _partition_changes(spark, path).where(
        "before is not null and after is not null and before.isr != after.isr"
    )
    left, joined = (
        F.array_except("before.isr", "after.isr"),
        F.array_except("after.isr", "before.isr"),
    )
    event = (
        F.when(F.size(joined) == 0, "shrink").when(F.size(left) == 0, "expand").otherwise("change")
    )
    return both.select(
        CLUSTER,
        "offset",
        "timestamp",
        "topic",
        "partition",
        event.alias("event"),
        left.alias("left"),
        joined.alias("joined"),
        F.col("after.isr").alias("isr"),
        "n",
    )


@_job
def flapping(spark: SparkSession, path: str) -> DataFrame:
    """How often each broker left an ISR and came back (flapped), by hour, worst first."""
    events = _isr_changes(spark, path).withColumn("hour", F.date_trunc("hour", "timestamp"))
    gone, back = (
        events.select(
            CLUSTER,
            "hour",
            "topic",
            "partition",
            F.explode(side).alias("broker"),
            F.lit(side).alias("side"),
        )
        for side in ("left", "joined")
    )
    by = gone.unionByName(back).groupBy(CLUSTER, "broker", "hour")
    counts = by.agg(
        F.count_if(F.col("side") == "left").alias("left"),
        F.count_if(F.col("side") == "joined").alias("joined"),
        F.countDistinct("topic", "partition").alias("partitions"),
    )
    return counts.withColumn("flaps", F.least("left", "joined")).orderBy(
        F.desc("flaps"), CLUSTER, "broker", "hour"
    )


@_job
def leaders(spark: SparkSession, path: str) -> DataFrame:
    """Leader moves an hour: all, those to another broker, and those that left a partition without a
    leader.
    """
    moved = _partition_changes(spark, path).where(
        "before is not null and after is not null and before.leader != after.leader"
    )
    offline = F.col("after.leader") == -1
    hours = moved.withColumn("hour", F.date_trunc("hour", "timestamp"))
    by_hour = hours.groupBy(CLUSTER, "hour")
    return by_hour.agg(
        F.count("*").alias("moves"),
        F.sum((~offline & (F.col("before.leader") != -1)).cast("int")).alias("toAnotherBroker"),
        F.sum(offline.cast("int")).alias("toNone"),
        F.countDistinct("key").alias("partitions"),
    ).orderBy(CLUSTER, "hour")


@_job
def configs(spark: SparkSession, path: str) -> DataFrame:
    """Return each config that was set, changed or deleted, with its value before and after; secrets
    are ``(redacted)``.
    """
    kind = "resourceType string, resourceName string, name string, value string"
    found = _changes(spark, path, "config", kind)
    one = F.coalesce("after", "before")
    return found.select(
        CLUSTER,
        "offset",
        "timestamp",
        one.resourceType.alias("resourceType"),
        one.resourceName.alias("resourceName"),
        one["name"].alias("name"),
        F.col("before.value").alias("before"),
        F.col("after.value").alias("after"),
        "type",
    ).orderBy(CLUSTER, "offset", "resourceName", "name")


@_job
def security(spark: SparkSession, path: str) -> DataFrame:
    """Return each change to ACLs, SCRAM credentials and delegation tokens: the principal, and the
    values before and after.
    """
    changes = read_table(spark, path, "changes").where("entity in ('acl', 'user', 'token')")
    one = F.coalesce("after", "before")
    who = F.coalesce(
        *(F.get_json_object(one, f"$.{name}") for name in ("principal", "name", "owner"))
    )
    return changes.select(
        CLUSTER, "offset", "timestamp", "entity", "op", who.alias("who"), "before", "after"
    ).orderBy(CLUSTER, "offset", "who")


@_job
def topics(spark: SparkSession, path: str) -> DataFrame:
    """Return the life of each topic: created, deleted, its duration, and whether that was shorter
    than an hour.
    """
    seconds = F.col("validToTime").cast("double") - F.col("validFromTime").cast("double")
    # The first record of each partition is among these, and no JSON has to be read for that.
    made = read_table(spark, path, "changes").where(
        "entity = 'partition' and type = 'PARTITION_RECORD'"
    )
    partitions = made.groupBy(
        F.coalesce(CLUSTER, F.lit("")).alias(_CLUSTER_OR), F.split("key", ":")[0].alias("topicId")
    ).agg(F.size(F.collect_set("key")).cast("bigint").alias("partitions"))
    lives = read_table(spark, path, "topics", history=True)
    lives = lives.withColumn(_CLUSTER_OR, F.coalesce(CLUSTER, F.lit("")))
    lives = lives.join(partitions, [_CLUSTER_OR, "topicId"], "left")
    return lives.select(
        CLUSTER,
        "name",
        "topicId",
        F.coalesce("partitions", F.lit(0)).alias("partitions"),
        F.col("validFromTime").alias("created"),
        F.col("validToTime").alias("deleted"),
        F.round(seconds, 3).alias("seconds"),
        F.coalesce(seconds < SHORT_LIVED_S, F.lit(False)).alias("shortLived"),
    ).orderBy(CLUSTER, "created", "name")


@_job
def reassignments(spark: SparkSession, path: str) -> DataFrame:
    """Each reassignment of a partition: the replicas before and after, its start and duration; the
    end is null while it is in progress.
    """
    moving = F.size("after.addingReplicas") + F.size("after.removingReplicas") > 0
    was = F.size("before.addingReplicas") + F.size("before.removingReplicas") > 0
    edges = _partition_changes(spark, path).withColumns(
        {"now": F.coalesce(moving, F.lit(False)), "was": F.coalesce(was, F.lit(False))}
    ).where("now != was")  # fmt: skip
    in_order = Window.partitionBy(CLUSTER, "key").orderBy(*_ORDER)
    ended, last = F.lead("timestamp").over(in_order), F.lead("after").over(in_order)
    spans = edges.withColumns({"ended": ended, "last": last}).where("now")
    seconds = F.col("ended").cast("double") - F.col("timestamp").cast("double")
    return spans.select(
        CLUSTER,
        "topic",
        "partition",
        F.col("timestamp").alias("started"),
        "ended",
        F.round(seconds, 3).alias("seconds"),
        F.array_except("after.replicas", "after.addingReplicas").alias("from"),
        F.col("last.replicas").alias("to"),
        "offset",
    ).orderBy(CLUSTER, "offset")


@_job
def brokers(spark: SparkSession, path: str) -> DataFrame:
    """The states of each broker over time: the spans in which it was fenced, active or shutting
    down; the last span has no end.
    """
    state = (
        F.when(F.col("inControlledShutdown"), "shutting down")
        .when(F.col("fenced"), "fenced")
        .otherwise("active")
    )
    spans = read_table(spark, path, "brokers", history=True).withColumn("state", state)
    in_order = Window.partitionBy(CLUSTER, "id").orderBy("validFromOffset")
    other = (F.lag("state").over(in_order) != F.col("state")) | (
        F.lag("epoch").over(in_order) != F.col("epoch")
    )
    apart = F.lag("validToOffset").over(in_order) != F.col("validFromOffset")
    numbered = spans.withColumn("new", F.coalesce(other | apart, F.lit(True)))
    numbered = numbered.withColumn("span", F.sum(F.col("new").cast("int")).over(in_order))
    until = F.when(F.max(F.col("validToTime").isNull()), None).otherwise(F.max("validToTime"))
    lines = numbered.groupBy(CLUSTER, "id", "epoch", "state", "span").agg(
        F.min("validFromTime").alias("since"), until.alias("until")
    )
    seconds = F.col("until").cast("double") - F.col("since").cast("double")
    return (
        lines.withColumn("seconds", F.round(seconds, 3)).orderBy(CLUSTER, "id", "span").drop("span")
    )


@_job
def load(spark: SparkSession, path: str) -> DataFrame:
    """Return records and bytes by record type: in all, per minute on average while there were any,
    and in the busiest minute.
    """
    by_minute = read_table(spark, path, "load")
    return (
        by_minute.groupBy(CLUSTER, "type")
        .agg(
            F.sum("records").alias("records"),
            F.sum("bytes").alias("bytes"),
            F.round(F.avg("records"), 1).alias("aMinute"),
            F.max("records").alias("busiestMinute"),
            F.max_by("minute", "records").alias("when"),
        )
        .orderBy(CLUSTER, F.desc("records"))
    )


def underreplicated(spark: SparkSession, path: str) -> DataFrame:
    """Return each span in which a partition had too few replicas in sync, the longest first; the
    end is null while it is in progress.
    """
    return asked(spark, path, "under_replicated", seconds=0)


def drift(spark: SparkSession, path: str) -> DataFrame:
    """Return each config that differs between the brokers of a cluster, or between clusters."""
    return asked(spark, path, "config_drift")


def audit(spark: SparkSession, path: str) -> DataFrame:
    """Return each change that a person or a tool asked for, with what it changed. The client is in
    the audit topic: ``kwire.spark.questions`` joins it.
    """
    return asked(spark, path, "who_changed_what")


#: By name, as ``kwire spark`` has them.
JOBS: Final[dict[str, Job]] = {
    "isr": isr,
    "flapping": flapping,
    "leaders": leaders,
    "configs": configs,
    "security": security,
    "topics": topics,
    "reassignments": reassignments,
    "brokers": brokers,
    "load": load,
    "underreplicated": underreplicated,
    "drift": drift,
    "audit": audit,
}


def _changes(spark: SparkSession, path: str, entity: str, columns: str) -> DataFrame:
    """The changes of one kind, with ``before`` and ``after`` as structs of some of its columns."""
    found = read_table(spark, path, "changes").where(F.col("entity") == entity)
    sides: dict[str, Column] = {side: F.from_json(side, columns) for side in ("before", "after")}
    return found.withColumns(sides)


def _partition_changes(spark: SparkSession, path: str) -> DataFrame:
    return _changes(spark, path, "partition", _PARTITION).withColumn(
        "partition", F.split("key", ":")[1].cast("int")
    )
