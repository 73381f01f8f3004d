"""``python -m tools.import_kafka VERSION``: imports the data in Kafka's jars into ``schemas``.

Message schemas go to ``schemas/kafka``; error codes, API keys, ACL enums, configuration keys and
levels of features to ``schemas/facts/VERSION.json``. Only the newest release replaces the schemas.
docs/new-kafka-release.md has the next steps.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click

from kwire.codegen.model import SchemaError
from kwire.jars.maven import MavenError
from tools.facts.compare import differences, to_look_at
from tools.facts.extract import read_facts, render
from tools.facts.schemas import SCHEMAS, import_release, read_origin, write_origin
from tools.java import JavaError


@click.command(epilog="Example: python -m tools.import_kafka 4.4.0")
@click.argument("version")
@click.option(
    "--out",
    default=SCHEMAS,
    type=click.Path(path_type=Path),
    show_default=True,
    help="The schemas directory.",
)
def main(version: str, out: Path) -> None:
    """Import Kafka VERSION from Maven and print what differs from the release before it."""
    if not _number(version):
        raise click.UsageError(f"{version!r} is no release: give three numbers, such as 4.4.0")
    try:
        facts = read_facts(version)
        known = sorted((path.stem for path in (out / "facts").glob("*.json")), key=_number)
        before = next((one for one in reversed(known) if _number(one) < _number(version)), None)
        changed = write_facts(version, facts, out)
        click.echo(f"schemas/facts/{version}.json: {'changed' if changed else 'as it was'}")
        if not known or _number(version) >= _number(known[-1]):
            count, files = import_release(version, out)
            click.echo(f"{count} schemas, {files} files changed")
        else:
            click.echo(f"the schemas stay those of {known[-1]}")
    except (JavaError, MavenError, SchemaError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if before is not None:
        _tell(
            before,
            json.loads((out / "facts" / f"{before}.json").read_text(encoding="utf-8")),
            facts,
        )


def write_facts(version: str, facts: dict[str, Any], out: Path) -> bool:
    """Write the facts of a release and their row in ORIGIN.json. Return whether they differ from
    the earlier ones.
    """
    text = render(facts)
    path = out / "facts" / f"{version}.json"
    changed = not path.exists() or path.read_text(encoding="utf-8") != text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    row = {
        "artifact": "kafka_2.13",
        "version": version,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    write_origin(out, {**read_origin(out), f"facts/{version}.json": row})
    return changed


def _tell(before: str, old: dict[str, Any], facts: dict[str, Any]) -> None:
    lines = differences(old, json.loads(json.dumps(facts)))
    click.echo(f"\n{len(lines)} facts differ from {before}:")
    for line in lines:
        click.echo(f"  {line}")
    click.echo("\nto look at:")
    for advice in to_look_at(lines):
        click.echo(f"  {advice}")
    click.echo("\nnext: python -m tools.check generated --fix, then docs/new-kafka-release.md")


def _number(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    return (
        tuple(map(int, parts)) if len(parts) == 3 and all(part.isdigit() for part in parts) else ()
    )


if __name__ == "__main__":
    main()
