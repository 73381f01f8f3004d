"""Reads Kafka's message schemas out of its jars and writes their facts under ``schemas/kafka``.

Facts are names, types, versions, tags, defaults and flags; comments and descriptions are left out.
ORIGIN.json names, for each file, the artifact and version that it came from and the SHA-256 of the
facts. A second run changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kwire.codegen.schema import load_json, parse
from kwire.jars.maven import resolve

ARTIFACTS = (
    "kafka-clients",
    "kafka-metadata",
    "kafka-raft",
    "kafka-group-coordinator",
    "kafka-transaction-coordinator",
    "kafka-share-coordinator",
    "kafka-server-common",
    "kafka-storage",
    "kafka-server",
)
#: Versions that newer Kafka dropped and that are still served: release -> schemas, written to
#: ``schemas/old``.
_OLD_SCHEMAS = (
    "AlterPartitionRequest",
    "AlterPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
)
OLD = {"3.9.1": ("kafka-clients", _OLD_SCHEMAS)}
SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"

_MESSAGE_ORDER = (
    "apiKey",
    "type",
    "listeners",
    "name",
    "validVersions",
    "deprecatedVersions",
    "flexibleVersions",
    "latestVersionUnstable",
    "commonStructs",
    "fields",
)
_FIELD_ORDER = (
    "name",
    "type",
    "versions",
    "nullableVersions",
    "taggedVersions",
    "tag",
    "flexibleVersions",
    "default",
    "ignorable",
    "mapKey",
    "zeroCopy",
    "entityType",
    "fields",
)


def import_jars(
    jars: Iterable[Path], out: Path, old: Iterable[tuple[Path, Sequence[str]]] = ()
) -> tuple[int, int]:
    """Write the facts of every schema in ``jars`` to ``out``, and those of the schemas in the
    ``old`` jars to the directory ``old`` beside it.

    ORIGIN.json beside both has the origin of each; its rows of other directories stay. Returns
    (schemas, files changed). Raises SchemaError, ValueError.
    """
    texts: dict[str, str] = {}
    origin: dict[str, dict[str, str]] = {}

    def take(jar: Path, raw: Mapping[str, Any], directory: str) -> None:
        artifact, _, version = jar.stem.rpartition("-")
        name = f"{directory}/{raw['name']}.json"
        if name in texts:
            raise ValueError(
                f"{name} stands in two jars: {origin[name]['artifact']} and {artifact}"
            )
        texts[name] = render(facts(raw))
        digest = hashlib.sha256(texts[name].encode()).hexdigest()
        origin[name] = {"artifact": artifact, "version": version, "sha256": digest}

    for jar in sorted(jars, key=lambda p: p.name):
        for raw in schemas_of(jar):
            take(jar, raw, out.name)
    for jar, names in old:
        for raw in schemas_of(jar):
            if raw["name"] in names:
                take(jar, raw, "old")
    changed = sum(_write(out.parent / name, text) for name, text in texts.items())
    for directory in (out, out.parent / "old"):
        for left_over in directory.glob("*.json"):
            if f"{directory.name}/{left_over.name}" not in texts:
                left_over.unlink()
                changed += 1
    replaced = (f"{out.name}/", "old/")
    others = {
        name: row for name, row in read_origin(out.parent).items() if not name.startswith(replaced)
    }
    changed += write_origin(out.parent, {**others, **origin})
    return len(texts), changed


def import_release(version: str, schemas: Path = SCHEMAS) -> tuple[int, int]:
    """The schemas of Kafka ``version`` and of the versions that it dropped, from Maven. Returns
    (schemas, files changed).

    Raises MavenError, SchemaError, ValueError.
    """
    jars = resolve([f"org.apache.kafka:{artifact}:{version}" for artifact in ARTIFACTS])
    old = [
        (resolve([f"org.apache.kafka:{artifact}:{release}"])[0], names)
        for release, (artifact, names) in OLD.items()
    ]
    return import_jars(jars, schemas / "kafka", old)


def read_origin(schemas: Path) -> dict[str, dict[str, str]]:
    """File, relative to ``schemas`` -> artifact, version and SHA-256; nothing where there is no
    ORIGIN.json.
    """
    path = schemas / "ORIGIN.json"
    found: dict[str, dict[str, str]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    )
    return found


def write_origin(schemas: Path, origin: Mapping[str, Mapping[str, str]]) -> bool:
    """Write ORIGIN.json with these rows, a line each. Returns whether that changed it."""
    rows = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(origin[name])}" for name in sorted(origin)
    )
    return _write(schemas / "ORIGIN.json", f"{{\n{rows}\n}}\n")


def schemas_of(jar: Path) -> Iterator[dict[str, Any]]:
    """Every message schema in a jar, checked. Raises SchemaError."""
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".json"):
                source = f"{jar.name}!{name}"
                raw = load_json(archive.read(name).decode("utf-8"), source)
                if "validVersions" in raw:
                    parse(raw, source)
                    yield raw


def facts(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``raw`` without descriptions, and with its members in a fixed order."""
    out = {k: raw[k] for k in _MESSAGE_ORDER if k in raw}
    for member in ("fields", "commonStructs"):
        if member in out:
            out[member] = [_field_facts(f) for f in out[member]]
    return out


def _field_facts(raw: Mapping[str, Any]) -> dict[str, Any]:
    out = {k: raw[k] for k in _FIELD_ORDER if k in raw}
    if "fields" in out:
        out["fields"] = [_field_facts(f) for f in out["fields"]]
    return out


def render(value: Mapping[str, Any]) -> str:
    """Return schema facts as text: a line for each field, with two spaces for each level."""
    head = ",\n".join(
        f"  {json.dumps(k)}: {json.dumps(v)}"
        for k, v in value.items()
        if k not in ("fields", "commonStructs")
    )
    parts = [head] if head else []
    parts += [
        f'  "{k}": {_render_list(value[k], 2)}' for k in ("commonStructs", "fields") if k in value
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _render_list(items: list[dict[str, Any]], indent: int) -> str:
    if not items:
        return "[]"
    pad = " " * (indent + 2)
    return (
        "[\n"
        + ",\n".join(pad + _render_field(item, indent + 2) for item in items)
        + "\n"
        + " " * indent
        + "]"
    )


def _render_field(item: dict[str, Any], indent: int) -> str:
    members = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in item.items() if k != "fields"]
    if "fields" in item:
        members.append(f'"fields": {_render_list(item["fields"], indent)}')
    return "{" + ", ".join(members) + "}"


def _write(path: Path, text: str) -> bool:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True
