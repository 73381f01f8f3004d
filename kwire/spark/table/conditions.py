"""Keeps what happened to the sources of several clusters, in one file at the root of their tables.

A source is as it should be, or has a condition, such as ``UNREACHABLE``. A change of condition is a
row of the table ``errors``; a condition that lasts is not repeated. The driver alone writes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa

from kwire.spark.table.places import SOURCES, opened
from kwire.spark.table.store import TablesError

#: ``UNREACHABLE``: no answer, or no files. ``REPLACED``: the log is another one. ``TRUNCATED``: the
#: log begins behind the tables. ``DAMAGED``: what is read cannot be decoded. ``FAILED``: the tables
#: cannot be written. ``RECOVERED``: it is read again.
Kind = Literal["UNREACHABLE", "REPLACED", "TRUNCATED", "DAMAGED", "FAILED", "RECOVERED"]

_FORMAT: Final = 1
#: The oldest rows beyond these are dropped.
_ROWS: Final = 10_000
ROWS: Final = {
    "cluster_id": pa.string(),
    "source": pa.string(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "type": pa.string(),
    "error": pa.string(),
}


@dataclass(frozen=True)
class Outcome:
    """The result of one source in one batch. ``condition`` lasts until another outcome, ``event``
    happened once; both are (kind, sentence).
    """

    source: str
    cluster_id: str | None = None
    next_offset: int = 0
    changes: int = 0
    condition: tuple[str, str] | None = None
    event: tuple[str, str] | None = None

    def to_json(self) -> str:
        """Return the JSON that :meth:`of` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Outcome:
        """Return the outcome that :meth:`to_json` wrote."""
        read = json.loads(text)
        pairs = {name: read[name] and tuple(read[name]) for name in ("condition", "event")}
        return cls(**{**read, **pairs})


@dataclass
class Present:
    """The last outcome of a source; ``failures`` counts those in a row."""

    cluster_id: str | None = None
    condition: str | None = None
    failures: int = 0
    at: float = 0.0


@dataclass
class Conditions:
    """The file at ``root``."""

    root: str
    present: dict[str, Present] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, root: str) -> Conditions:
        """Return what the file holds; nothing if there is none. Raises TablesError."""
        files, path = opened(root)
        try:
            with files.open_input_stream(f"{path}/{SOURCES}") as file:
                found = json.loads(file.read())
            if found["format"] != _FORMAT:
                raise ValueError("it was written by another version of kwire")
            present = {source: Present(**one) for source, one in found["present"].items()}
            return cls(root, present, list(found["rows"]))
        except FileNotFoundError:
            return cls(root)
        except (ValueError, KeyError, TypeError) as error:
            raise TablesError(
                f"{root}/{SOURCES} cannot be read: {error}; delete it, which loses only what"
                " happened to sources before"
            ) from None

    def note(self, outcomes: Iterable[Outcome]) -> None:
        """Take the outcomes of a batch, and write the file if they change anything. Raises
        OSError.
        """
        before = dict(self.present), list(self.rows)
        for outcome in outcomes:
            self._note(outcome, time.time())
        if (self.present, self.rows) != before:
            self._write()

    def _note(self, outcome: Outcome, now: float) -> None:
        was = self.present.get(outcome.source, Present())
        if outcome.event is not None:
            self._add(outcome, outcome.event, now)
        elif was.cluster_id and outcome.cluster_id and was.cluster_id != outcome.cluster_id:
            sentence = (
                f"{outcome.source} now has cluster {outcome.cluster_id}: the tables of"
                f" {was.cluster_id} end, those of {outcome.cluster_id} begin"
            )
            self._add(outcome, ("REPLACED", sentence), now, was.cluster_id)
        kind = outcome.condition[0] if outcome.condition else None
        if outcome.condition is not None and kind != was.condition:
            self._add(outcome, outcome.condition, now, outcome.cluster_id or was.cluster_id)
        elif kind is None and was.condition is not None:
            self._add(outcome, ("RECOVERED", f"{outcome.source} is read again"), now)
        self.present[outcome.source] = Present(
            outcome.cluster_id or was.cluster_id,
            kind,
            was.failures + 1 if kind else 0,
            now if kind else 0.0,
        )

    def _add(
        self, outcome: Outcome, what: tuple[str, str], now: float, cluster_id: str | None = None
    ) -> None:
        self.rows.append(
            {
                "cluster_id": cluster_id or outcome.cluster_id,
                "source": outcome.source,
                "offset": outcome.next_offset,
                "timestamp": round(now * 1000) * 1000,
                "type": what[0],
                "error": what[1],
            }
        )
        del self.rows[:-_ROWS]

    def sentences(self) -> list[str]:
        """The conditions that last, one sentence for each."""
        last = {row["source"]: row["error"] for row in self.rows if row["type"] != "RECOVERED"}
        return [last[source] for source, one in self.present.items() if one.condition]

    def table(self) -> pa.Table:
        """The rows with the columns of ``errors``."""
        return pa.table(
            {
                name: pa.array([row[name] for row in self.rows], of)
                if not pa.types.is_timestamp(of)
                else pa.array([row[name] for row in self.rows], pa.int64()).cast(of)
                for name, of in ROWS.items()
            }
        )

    def _write(self) -> None:
        files, path = opened(self.root)
        present = {source: asdict(one) for source, one in self.present.items()}
        text = json.dumps({"format": _FORMAT, "present": present, "rows": self.rows})
        files.create_dir(path, recursive=True)
        with files.open_output_stream(f"{path}/{SOURCES}.tmp") as file:
            file.write(text.encode())
        files.move(f"{path}/{SOURCES}.tmp", f"{path}/{SOURCES}")
