"""``python -m tools.bench``: run the benches, or the named ones, and print one table with every
bar.
"""

from __future__ import annotations

import importlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tools.bench.report import holds, page, show

BENCHES: Sequence[str] = (
    "codec",
    "records",
    "serving",
    "workers",
    "commit",
    "controller",
    "conform",
    "slices",
    "observer",
    "views",
    "relays",
    "spark",
    "spark-tables",
)
#: Benches that run only when they are named, because they take many minutes.
LONG: Sequence[str] = (
    "scale", "requests", "produce", "clients", "perf-tools", "replication", "starts", "spark-fleet",
    "fleet-merges",
)  # fmt: skip


@click.command(epilog="Example: python -m tools.bench codec --out docs/benchmarks.md")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines instead of a table.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the rows to this Markdown page; those of other benches stay there.",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def main(as_json: bool, out: Path | None, names: tuple[str, ...]) -> None:
    """Measure, compare with the bars, and print those that do not hold."""
    unknown = set(names) - {*BENCHES, *LONG}
    if unknown:
        raise click.UsageError(
            f"no bench {', '.join(sorted(unknown))}; there are: {', '.join([*BENCHES, *LONG])}"
        )
    rows = []
    for row in _rows(names or BENCHES):
        rows.append(row)
        if as_json:  # at once: a long bench may be stopped
            click.echo(json.dumps(row))
    if not as_json:
        show(rows)
    if out is not None:
        before = out.read_text(encoding="utf-8") if out.exists() else ""
        out.write_text(page(before, rows, _machine()), encoding="utf-8")
    missed = [row for row in rows if holds(row) is False]
    click.echo(f"{len(rows)} rows, {len(missed)} bars missed", err=True)
    sys.exit(1 if missed else 0)


def _rows(names: Iterable[str]) -> Iterable[Mapping[str, Any]]:
    for name in names:
        began = time.monotonic()
        click.echo(f"{name} ...", err=True)
        for row in importlib.import_module(f"tools.bench.{name.replace('-', '_')}").run():
            yield {"bench": name, **row}
        click.echo(f"{name}: {time.monotonic() - began:.0f} s", err=True)


def _machine() -> str:
    """Return where the numbers are from: processor, system, Python, commit."""
    processor = platform.processor() or platform.machine()
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    ).stdout.strip()
    return (
        f"{processor}, {platform.system()} {platform.release()}, {platform.python_implementation()}"
        f" {platform.python_version()}, commit {commit or 'unknown'}, {time.strftime('%Y-%m-%d')}"
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


if __name__ == "__main__":
    main()
