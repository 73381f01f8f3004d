"""Names the tables in a session as views, and asks the questions of ``questions.sql`` to them:
tables of one log (``kwire.spark.tables``) or those of the fleet (``kwire.spark.fleet``).

    from kwire.spark.questions import ask, register_tables
    register_tables(spark, "/data/metadata")
    spark.sql("SELECT name, id FROM topics").show()
    ask(spark, "under_replicated", seconds=300).show()

Views are those of entities, with the columns of the view topics (``kwire views --schema``) behind
``cluster_id``, and ``changed`` with every change. It makes and changes no table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from kwire.spark.fleet import register, sql
from kwire.spark.fleet.views import CHANGES, VIEWS
from kwire.spark.table.read import read_table
from kwire.spark.table.store import MANIFEST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kwire.spark.fleet.place import Format

#: Where nothing else is asked, questions are about the whole log.
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Parameters of questions, where they are not given.
DEFAULTS: Final[Mapping[str, Any]] = {"since": _BEGINNING, "seconds": 300}
_QUESTION: Final = re.compile(r"^-- question: (\w+)\n(.*?);\n", re.DOTALL | re.MULTILINE)
_VALIDITY: Final = (
    "validFromTime AS valid_from",
    "validToTime AS valid_to",
    "validFromOffset AS valid_from_offset",
    "validToOffset AS valid_to_offset",
)
#: The columns of views where they are not those of the table.
_COLUMNS: Final = {
    "topics": ["name", "topicId AS id"],
    "users": ["name AS user", "mechanism", "iterations"],
    "features": ["name AS feature", "level"],
}
_PLAIN: Final = ("partitions", "brokers", "controllers", "acls", "tokens", *_COLUMNS)
#: The present topics, with what the view topic has of their partitions and configs.
_TOPICS: Final = """
SELECT t.*, coalesce(p.count, 0) AS partitions, coalesce(p.factor, 0) AS replicationFactor,
       coalesce(c.configs, map()) AS configs
FROM {topics} t
LEFT JOIN (
  SELECT topicId, CAST(count(*) AS INT) AS count,
         max(CASE WHEN partition = 0
             THEN size(array_except(replicas, addingReplicas)) END) AS factor
  FROM {partitions} GROUP BY topicId
) p ON p.topicId = t.id
LEFT JOIN {configs} c
  ON c.resourceType = 'TOPIC' AND c.resourceName = t.name AND c.cluster_id <=> t.cluster_id
"""
_CONFIGS: Final = """
SELECT cluster_id, replace(upper(resourceType), '-', '_') AS resourceType,
       if(resourceName = '<default>', '', resourceName) AS resourceName,
       map_from_entries(array_sort(collect_list(struct(name, value)))) AS configs
FROM {rows} GROUP BY ALL
"""
_QUOTAS: Final = """
SELECT cluster_id, entity, map_from_entries(array_sort(collect_list(struct(name, value)))) AS quotas
FROM {rows} GROUP BY ALL
"""
#: One row for each resource, where the table has one for each value.
_IN_ROWS: Final = {"configs": _CONFIGS, "quotas": _QUOTAS}
_OF_ENTITY: Final = "map<string, string>"
_CHANGED: Final = f"""
SELECT cluster_id, offset, timestamp, entity AS kind,
       CASE WHEN op = 'delete' THEN 'd' WHEN before IS NULL THEN 'c' ELSE 'u' END AS op,
       CASE entity WHEN 'topic' THEN coalesce(topic, after.name, before.name)
                   WHEN 'partition' THEN concat(topic, ':', split(key, ':')[1])
                   ELSE key END AS name,
       before, after, type AS record_type
FROM (SELECT * EXCEPT (before, after), from_json(before, '{_OF_ENTITY}') AS before,
             from_json(after, '{_OF_ENTITY}') AS after FROM {{changes}})
WHERE entity <> 'log'
"""
#: The same of the fleet's view ``changes``; ``snapshot`` is no entity.
_FLEET_CHANGED: Final = f"""
SELECT cluster_id, source.offset AS offset, timestamp, kind, op,
       array_join(map_values(from_json(key, '{_OF_ENTITY}')), ':') AS name,
       from_json(before, '{_OF_ENTITY}') AS before, from_json(after, '{_OF_ENTITY}') AS after,
       source.record_type AS record_type
FROM changes
WHERE kind <> 'snapshot'
"""
_WHO: Final = ("principal", "host", "client_id", "api")
_AUDIT: Final = (
    ("cluster_id", "STRING"),
    ("offset", "BIGINT"),
    ("last_offset", "BIGINT"),
    *((name, "STRING") for name in _WHO),
)


def _questions() -> dict[str, str]:
    text = resources.files("kwire.spark").joinpath("questions.sql").read_text(encoding="utf-8")
    return dict(_QUESTION.findall(text))


#: The text of each question, by name.
QUESTIONS: Final[Mapping[str, str]] = _questions()


def register_tables(
    spark: SparkSession,
    where: str,
    *,
    audit: DataFrame | None = None,
    format: Format | None = None,
    question: str | None = None,
) -> None:
    """Make temporary views of the tables at ``where``: ``topics``, ``partitions``, ``configs``,
    ``acls``, ``brokers``, ``controllers``, ``quotas``, ``features``, ``users`` and ``tokens`` as
    they are now; ``topics_versions`` and so on with ``valid_from`` and ``valid_to`` (configs and
    quotas of one log have none); ``changed`` with each change; and ``audit``.

    ``where`` is the path of the tables of one log, or where the fleet's are, with their ``format``.
    ``audit`` has the rows of ``kwire.spark.topics.audit``, with a column ``cluster_id`` if the
    tables are of several clusters. With ``question`` the tables that it does not ask are not looked
    at, and have no views. The views show the tables as they are now: register them again
    after an update. Raises what ``read_table`` and ``kwire.spark.fleet.register`` raise.
    """
    wanted = _asked_by(question) if question else list(VIEWS)
    if _is_of_a_fleet(where, format):
        register(spark, where, format=format, views=wanted)
        views = {"changed": spark.sql(_FLEET_CHANGED)} if CHANGES in wanted else {}
    else:
        views = _views(spark, where, wanted)
    views["audit"] = _audit(spark, audit)
    for name, rows in views.items():
        rows.createOrReplaceTempView(name)


def _asked_by(question: str) -> list[str]:
    """The views that a question names."""
    words = set(re.findall(r"\w+", QUESTIONS[question]))
    found = [view for view in VIEWS if words & {view, f"{view}_versions"}]
    return [*found, CHANGES] if "changed" in words else found


def _is_of_a_fleet(where: str, format: Format | None) -> bool:
    if os.path.isfile(os.path.join(where, MANIFEST)):
        return False
    in_catalog, by_uri = os.sep not in where, "://" in where
    return bool(format) or in_catalog or by_uri or os.path.isdir(os.path.join(where, "clusters"))


def _views(spark: SparkSession, where: str, wanted: Sequence[str]) -> dict[str, DataFrame]:
    """Some views of the tables of one log, in the columns of the view topics."""
    views = {}
    # The present topics have columns of the two others.
    needed = {*wanted, *(("partitions", "configs") if "topics" in wanted else ())}
    for name in needed.intersection(_PLAIN):
        versions = _versions(spark, where, name)
        views[f"{name}_versions"] = versions
        views[name] = versions.where("valid_to_offset IS NULL").drop("valid_to", "valid_to_offset")
    for name in needed.intersection(_IN_ROWS):
        views[name] = spark.sql(_IN_ROWS[name], rows=read_table(spark, where, name))
    if "topics" in needed:
        shape: dict[str, Any] = {name: views[name] for name in ("topics", "partitions", "configs")}
        views["topics"] = spark.sql(_TOPICS, **shape)
    if CHANGES in needed:
        views["changed"] = spark.sql(_CHANGED, changes=read_table(spark, where, CHANGES))
    return views


def _versions(spark: SparkSession, where: str, name: str) -> DataFrame:
    """Every version of the entities of a table, in the columns of their view topic."""
    ever = read_table(spark, where, name, history=True)
    same = [one for one in ever.columns if one != "cluster_id" and not one.startswith("valid")]
    return ever.selectExpr("cluster_id", *_COLUMNS.get(name, same), *_VALIDITY)


def _audit(spark: SparkSession, rows: DataFrame | None) -> DataFrame:
    if rows is None:
        return spark.sql(sql.values(_AUDIT, []))
    if "cluster_id" in rows.columns:
        return rows
    return rows.withColumn("cluster_id", F.lit(None).cast("string"))


def ask(spark: SparkSession, question: str, **parameters: Any) -> DataFrame:
    """Return the answer to one of ``QUESTIONS``. ``since`` is an aware datetime, by default before
    the log; ``seconds`` a number, by default 300. Raises ValueError for another question or
    parameter.
    """
    if question not in QUESTIONS:
        raise ValueError(f"questions are {', '.join(QUESTIONS)}, not {question!r}")
    text = QUESTIONS[question]
    takes = {name for name in DEFAULTS if f":{name}" in text}
    if wrong := parameters.keys() - takes:
        raise ValueError(
            f"{question} takes {', '.join(sorted(takes)) or 'no parameter'}, not"
            f" {', '.join(sorted(wrong))}"
        )
    for name in takes:
        text = text.replace(f":{name}", _literal(parameters.get(name, DEFAULTS[name])))
    return spark.sql(text)


def _literal(value: Any) -> str:
    """Return a time or a number in SQL: the parser of Delta's extension takes no parameters."""
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"
    return f"{float(value)!r}D"


def asked(spark: SparkSession, where: str, question: str, **parameters: Any) -> DataFrame:
    """Return the answer that the tables at ``where`` give, without a view in ``spark`` itself, and
    without the columns of the audit topic, which the tables do not have.
    """
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", str(spark.conf.get("spark.sql.session.timeZone")))
    register_tables(own, where, question=question)
    return ask(own, question, **parameters).drop(*_WHO)
