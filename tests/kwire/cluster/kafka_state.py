"""Images as rows that can be compared with the state that Kafka's own image gives for the same
records.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from kwire.cluster import Image, image_records
from kwire.records import metadata_record_name


def comparable(name: str, version: int, data: dict[str, Any]) -> str:
    """One record as text. Kafka holds end points and features in maps, so their order means
    nothing.
    """
    for member in ("endPoints", "features"):
        if member in data:
            data[member] = sorted(data[member], key=lambda one: one["name"])
    return json.dumps([name, version, data], sort_keys=True)


def state_of(image: Image) -> Counter[str]:
    """The records of a snapshot of ``image``."""
    rows = ((metadata_record_name(type(r)), v, r.to_json(v)) for r, v in image_records(image))
    return Counter(comparable(*row) for row in rows)


def truth(path: Path) -> tuple[int, Counter[str]]:
    """(next offset, what a snapshot would hold) as Kafka gave it."""
    head, *lines = [
        json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line
    ]
    # Kafka 3.9's image still remembered that no migration from ZooKeeper was under way; later ones
    # have no such record.
    kept = [x for x in lines if x["type"] != "ZK_MIGRATION_STATE_RECORD"]
    return head["nextOffset"], Counter(comparable(x["type"], x["version"], x["data"]) for x in kept)
