"""``python -m tools.kip_differences``: compares the message forms in the texts of the KIPs with the
shipped ones.

Reads ``schemas/kip`` and ``schemas/kafka`` and writes the table into the marked part of
docs/kip-differences.md; the text around it stays. It ignores differences that do not affect the
wire or the JSON form (ignorable, entityType, mapKey, names of structs).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from kwire.codegen.model import Field, Schema, Struct, Versions
from kwire.codegen.schema import load_json, parse

ROOT = Path(__file__).resolve().parent.parent
KIP, SHIPPED = ROOT / "schemas" / "kip", ROOT / "schemas" / "kafka"
PAGE = ROOT / "docs" / "kip-differences.md"
BEGIN, END = (
    "<!-- begin: python -m tools.kip_differences -->",
    "<!-- end: python -m tools.kip_differences -->",
)

#: The KIPs in the order of the page: folder of ``schemas/kip`` and title.
KIPS = {
    "595": "KIP-595: the Raft protocol of the metadata quorum",
    "631": "KIP-631: the records of the controller",
    "590": "KIP-590: forwarding to the controller",
    "497": "KIP-497: AlterIsr",
}


@click.command(epilog="Example: python -m tools.kip_differences --check")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the page is not up to date.")
def main(check: bool) -> None:
    """Write the table of differences into docs/kip-differences.md."""
    old = PAGE.read_text(encoding="utf-8")
    new = renew(old)
    if check and new != old:
        raise click.ClickException(
            f"{PAGE.name} is not up to date: run python -m tools.kip_differences"
        )
    if not check:
        PAGE.write_text(new, encoding="utf-8")
    found = sum(len(pair.differences()) for pair in pairs())
    click.echo(f"{found} differences in {len(list(pairs()))} messages, in {PAGE.name}")


def renew(page: str) -> str:
    """Return ``page`` with its marked part replaced. Raises ClickException if the markers are not
    there.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise click.ClickException(f"{PAGE.name} needs the lines {BEGIN} and {END}, once each")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{rest.partition(END)[2]}"


@dataclass(frozen=True)
class Difference:
    """One row: a field (or ``(message)``), the kind of the difference, and the two sides in
    words.
    """

    path: str
    kind: str
    text: str
    shipped: str


@dataclass(frozen=True)
class Pair:
    """A form in a text, and the shipped message that corresponds to it."""

    kip: str
    text: Schema
    shipped: Schema
    renamed: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def differences(self) -> list[Difference]:
        """Every difference, the message's own first, then field by field in the order of the
        text.
        """
        return list(_message_differences(self.text, self.shipped)) + list(_field_differences(self))

    def same_bytes(self) -> list[int]:
        """Return the versions of both sides at which every value has the same bytes."""
        both = self.text.valid & self.shipped.valid
        return [v for v in both if wire_shape(self.text, v) == wire_shape(self.shipped, v)]


def pairs(kip: str | None = None) -> Iterator[Pair]:
    """Every form of ``schemas/kip`` with its shipped counterpart, in the order of the page. Raises
    SchemaError.
    """
    origin: dict[str, dict[str, Any]] = json.loads(
        (KIP / "ORIGIN.json").read_text(encoding="utf-8")
    )
    for folder in (kip,) if kip else KIPS:
        for name in sorted(n for n in origin if n.startswith(f"{folder}/")):
            entry = origin[name]
            text, shipped = _schema(KIP / name), _schema(SHIPPED / f"{entry['shipped']}.json")
            yield Pair(
                folder, text, shipped, entry.get("renamed", {}), tuple(entry.get("notes", ()))
            )


def _schema(path: Path) -> Schema:
    return parse(load_json(path.read_text(encoding="utf-8"), path.name), path.name)


def _message_differences(text: Schema, shipped: Schema) -> Iterator[Difference]:
    rows = (
        ("name", text.name, shipped.name),
        ("key", text.api_key, shipped.api_key),
        ("valid versions", text.valid, shipped.valid),
        ("flexible versions", text.flexible, shipped.flexible),
    )
    for kind, one, other in rows:
        if one != other:
            yield Difference("(message)", kind, str(one), str(other))


@dataclass(frozen=True)
class Place:
    """A field with the versions that can contain it: its own, limited by those of the structs
    around it.
    """

    field: Field = field(compare=False)
    versions: Versions


def places(schema: Schema) -> dict[str, Place]:
    """Every field of a message by its dotted path, in order of the schema."""
    found: dict[str, Place] = {}

    def walk(struct: Struct, prefix: str, around: Versions) -> None:
        for one in struct.fields:
            found[prefix + one.name] = Place(one, one.versions & around)
            if one.struct is not None:
                walk(one.struct, f"{prefix}{one.name}.", one.versions & around)

    walk(schema.root, "", Versions(0, Versions.parse("0+").high))
    return found


def _field_differences(pair: Pair) -> Iterator[Difference]:
    text, shipped = places(pair.text), places(pair.shipped)
    matched = {path: new for path in text if (new := shipped_path(path, pair.renamed)) in shipped}
    for path, place in text.items():
        if path not in matched:
            yield Difference(path, "only in the text", _in_words(place), "")
        else:
            yield from _compare(path, place, matched[path], shipped[matched[path]], pair.text.valid)
    yield from _order(matched, list(shipped))
    for path, place in shipped.items():
        if path not in matched.values():
            yield Difference(path, "only shipped", "", _in_words(place))


def shipped_path(path: str, renamed: Mapping[str, str]) -> str:
    """Return the path in the shipped form of the field at ``path`` in the text; the longest renamed
    prefix decides.
    """
    head, tail = path, ""
    while head:
        if head in renamed:
            return renamed[head] + tail
        head, dot, last = head.rpartition(".")
        tail = dot + last + tail
    return path


def _compare(
    path: str, text: Place, new_path: str, shipped: Place, valid: Versions
) -> Iterator[Difference]:
    if path.rpartition(".")[2] != new_path.rpartition(".")[2]:
        yield Difference(path, "renamed", path.rpartition(".")[2], new_path.rpartition(".")[2])
    # A change to a field after the last version of the text is no difference between the two.
    known = Versions(0, valid.high)
    old, new = text.field, shipped.field
    rows = (
        ("type", _type(old), _type(new)),
        ("versions", str(text.versions & known), str(shipped.versions & known)),
        ("nullable", _range(old.nullable & known), _range(new.nullable & known)),
        ("tag", _tag(old, known), _tag(new, known)),
        ("default", _default(old), _default(new)),
    )
    for kind, one, other in rows:
        if one != other:
            yield Difference(path, kind, one, other)


def _order(matched: Mapping[str, str], shipped: list[str]) -> Iterator[Difference]:
    """Return the fields that come after a field in the text and before it in the shipped form."""
    last = -1
    for path, new in matched.items():
        at = shipped.index(new)
        if at < last:
            yield Difference(
                path, "order", "after " + _before(path, list(matched)), f"before {shipped[last]}"
            )
        last = max(last, at)


def _before(path: str, order: list[str]) -> str:
    return order[order.index(path) - 1]


def _in_words(place: Place) -> str:
    one = place.field
    words = [_type(one), f"versions {place.versions}"]
    if one.nullable:
        words.append("nullable")
    if one.tag is not None:
        words.append(f"tag {one.tag}")
    return ", ".join(words)


def _type(one: Field) -> str:
    return (
        f"[]{one.type}"
        if one.array and one.struct is None
        else "[]struct"
        if one.array
        else one.type
    )


def _range(versions: Versions) -> str:
    return str(versions) if versions else "no"


def _tag(one: Field, known: Versions) -> str:
    return f"tag {one.tag}, versions {one.tagged & known}" if one.tag is not None else "not tagged"


def _default(one: Field) -> str:
    if one.default is None:
        return "null"
    if isinstance(one.default, bytes):
        return "zero" if not any(one.default) else one.default.hex()
    return (
        str(one.default).lower() if isinstance(one.default, bool) else str(one.default) or "empty"
    )


def wire_shape(schema: Schema, version: int) -> object:
    """A value that is equal for two messages exactly when ``version`` of both writes equal values
    as equal bytes.
    """
    flexible = version in schema.flexible
    return flexible, _shape(schema.root, version, flexible)


def _shape(
    struct: Struct, version: int, flexible: bool
) -> tuple[tuple[object, ...], tuple[object, ...]]:
    plain: list[object] = []
    for one in struct.at(version):
        inner = _shape(one.struct, version, flexible) if one.struct is not None else _wire_type(one)
        if (
            one.struct is not None
            and not one.array
            and version not in one.nullable
            and not flexible
        ):
            # A struct that is neither nullable nor flexible adds no byte of its own: its fields
            # stand there in line.
            assert isinstance(inner, tuple)
            plain.extend(inner[0])
        else:
            plain.append((one.array, version in one.nullable, inner))
    tagged = [
        # A tagged field at its default is not written, so the defaults belong to the shape.
        (one.tag, one.array, version in one.nullable, _defaults(one, version),
         _shape(one.struct, version, flexible) if one.struct is not None else _wire_type(one))
        for one in struct.tagged_at(version)
    ]  # fmt: skip
    return tuple(plain), tuple(tagged)


def _defaults(one: Field, version: int) -> object:
    if one.struct is None or one.array:
        return _default(one)
    return _default(one), tuple(
        _defaults(inner, version) for inner in one.struct.fields if version in inner.versions
    )


def _wire_type(one: Field) -> str:
    return "bytes" if one.type == "records" else one.type


def table() -> str:
    """The whole generated part of the page, in Markdown."""
    parts: list[str] = []
    for kip, title in KIPS.items():
        parts.append(f"### {title}\n")
        parts += [_section(pair) for pair in pairs(kip)]
    return "\n".join(parts)


def _section(pair: Pair) -> str:
    same, common = pair.same_bytes(), pair.text.valid & pair.shipped.valid
    if not common:
        verdict = "no version in common"
    elif same:
        verdict = (
            f"same bytes at {'version' if len(same) == 1 else 'versions'} {_runs(same)} of {common}"
        )
    else:
        verdict = (
            f"different bytes at {'version' if common.low == common.high else 'versions'} {common}"
        )
    lines = [f"#### {pair.text.name}", "", f"Shipped as {pair.shipped.name}: {verdict}.", ""]
    for note in pair.notes:
        lines += textwrap.wrap(f"* {note}", 120, subsequent_indent="  ", break_on_hyphens=False)
    lines += [""] if pair.notes else []
    rows = pair.differences()
    if rows:
        lines += ["| field | difference | text | shipped |", "|---|---|---|---|"]
        lines += [f"| {r.path} | {r.kind} | {r.text} | {r.shipped} |" for r in rows]
        lines.append("")
    return "\n".join(lines)


def _runs(numbers: list[int]) -> str:
    """``[4, 5, 6, 9]`` -> ``4-6, 9``."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


if __name__ == "__main__":
    main()
