"""Reads the fleet's tables without Spark, and view topics without kwire's tables, and tells where
they differ.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.cluster.field_types import ENTITY, FieldType, ListOf, MapOf, Nullable, Struct
from kwire.cluster.view_records import CLUSTER_ID_HEADER, COMPLETE_HEADER
from kwire.spark.fleet.views import VIEWS, View

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN: Final = 3
#: A view ends behind its last record, so the last poll gives none.
_POLL_MS: Final = 500


class ViewRecord(NamedTuple):
    """A record of a view topic: key and value as JSON has them; ``value`` is None for what is
    gone.
    """

    cluster: str
    offset: int
    timestamp_ms: int
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None


def records_of(addresses: Sequence[str], view: str) -> list[ViewRecord]:
    """Every record of a view topic at each server."""
    from kafka import KafkaConsumer, TopicPartition

    found, place = [], TopicPartition(VIEWS[view].topic, 0)
    for address in addresses:
        consumer = KafkaConsumer(bootstrap_servers=[address], enable_auto_commit=False)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            for record in consumer.poll(_POLL_MS).get(place, []):
                headers = dict(record.headers)
                if COMPLETE_HEADER not in headers:
                    found.append(_record(record, headers[CLUSTER_ID_HEADER].decode()))
        consumer.close()
    return found


def _record(record: Any, cluster: str) -> ViewRecord:
    value = record.value and json.loads(record.value)
    return ViewRecord(cluster, record.offset, record.timestamp, json.loads(record.key), value)


def rows_of(where: Path, table: str, format: str) -> list[dict[str, Any]]:
    """Every row of a table in a directory; none where it has not been made."""
    place = where / table
    if format == "delta":
        if not any((place / "_delta_log").glob("*.json")):
            return []
        return _listed(delta_rows(place))
    versions = list((place / "metadata").glob("v*.metadata.json"))
    if not versions:
        return []
    from pyiceberg.table import StaticTable

    newest = max(versions, key=lambda file: int(file.name[1:].partition(".")[0]))
    return _listed(StaticTable.from_metadata(str(newest)).scan().to_arrow())


def delta_rows(place: Path) -> pa.Table:
    """Every row of a Delta table in a directory, by delta-rs: its queries know deletion vectors,
    and its own way to Arrow refuses a table with them.
    """
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    builder = QueryBuilder().register("rows_of_it", DeltaTable(str(place)))
    return pa.table(builder.execute("SELECT * FROM rows_of_it").read_all())


def _listed(table: pa.Table) -> list[dict[str, Any]]:
    return list(table.to_pylist())


def faults(
    records: Mapping[str, Sequence[ViewRecord]],
    rows: Callable[[str], Sequence[Mapping[str, Any]]],
) -> Iterator[str]:
    """Yield what is wrong with the tables of views, which ``rows`` gives by name, if the view
    topics have ``records``, all of them of the first log of a cluster.
    """
    for name, of_view in records.items():
        view = VIEWS[name]
        history, *states = view.tables
        yield from _differences(history, of_view, rows(history), view)
        for state in states:
            last = {(one.cluster, json.dumps(one.key)): one for one in of_view}
            yield from _differences(state, list(last.values()), rows(state), view)


def _differences(
    table: str, records: Sequence[ViewRecord], rows: Sequence[Mapping[str, Any]], view: View
) -> Iterator[str]:
    wanted = Counter(_of_record(one, view) for one in records)
    there = Counter(_of_row(one, view) for one in rows)
    for what, of_what in (
        ("more than once", [text for text, count in there.items() if count > 1]),
        ("missing", list((wanted - there).keys())),
        ("not in the view topic", list((there - wanted).keys() - {*wanted})),
    ):
        if of_what:
            yield f"{table}: {len(of_what)} {what}: {of_what[:_SHOWN]}"


def _of_record(one: ViewRecord, view: View) -> str:
    value = one.value or {}
    keys = {name: one.key.get(name) for name in view.keys}
    values = {name: value.get(name) for name in view.values}
    return _text(one.cluster, one.offset, one.timestamp_ms, one.value is None, keys, values)


def _of_row(row: Mapping[str, Any], view: View) -> str:
    keys = {name: shown(row[name], of) for name, of in view.keys.items()}
    values = {name: shown(row[name], of) for name, of in view.values.items()}
    timestamp_ms = round(row["timestamp"].timestamp() * 1000)
    return _text(row["cluster_id"], row["offset"], timestamp_ms, row["deleted"], keys, values)


def _text(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True)


def shown(value: Any, of: FieldType) -> Any:
    """A value of a table as the JSON of the view has it."""
    if value is None:
        return None
    match of:
        case Nullable(inner):
            return shown(value, inner)
        case ListOf(items):
            return [shown(one, items) for one in value]
        case MapOf(values):
            return {key: shown(one, values) for key, one in dict(value).items()}
        case Struct(fields):
            return {name: shown(value[name], one) for name, one in fields.items()}
        case str():
            return json.loads(value) if of == ENTITY else value
