"""Implements ``kwire state``: prints the cluster's state at any offset or time, from files or a
server.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.lines import json_line, wants_json
from gateway.cli.lines import note as tell
from gateway.cli.server_options import bootstrap_server, command_config, server_of
from gateway.cli.state_source import parse_at
from kwire.metadata_log.at import At
from kwire.printable import json_text

if TYPE_CHECKING:
    from gateway.base.address import Address
    from kwire.metadata_log.fold import State

#: Names from the root to an entity.
_Path = tuple[str, ...]
_NAMES_PER_LEVEL: Final = re.compile(r"(?:\\.|[^/\\])+", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_GLOB: Final = re.compile(r"[*?[]")


@click.command(
    "state",
    short_help="Show the cluster's state at an offset or a time.",
    epilog="""\b
Examples:
  kwire state /var/lib/kafka/metadata
  kwire state /var/lib/kafka/metadata --at 2026-11-21T03:18:00Z --path /topics/orders
  kwire state -b localhost:9092 --path '/topics/*/0' | jq 'map_values(.leader)'
  kwire state 00000000000000007532-0000000004.checkpoint --path /configs
  kwire state -b localhost:9092 -o lines | grep '"isr": \\[1\\]'

Exit status: 1 where the state cannot be had, or there is nothing at --path.""",
)
@click.argument(
    "sources", nargs=-1, metavar="[SOURCE]...", type=click.Path(exists=True, path_type=Path)
)
@bootstrap_server("Read from a server instead.")
@command_config
@click.option(
    "--at",
    metavar="OFFSET|TIME",
    type=parse_at,
    help=(
        "The state before OFFSET (exclusive), or as of TIME: ISO 8601, UTC unless it names a zone,"
        " or ms since 1970."
    ),
)
@click.option(
    "--path",
    "place",
    metavar="/NAME/...",
    default="/",
    help="Print only this path; * ? [] match parts of names.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["auto", "tree", "json", "lines"]),
    default="auto",
    show_default=True,
    help=(
        "A tree for people, one JSON value with a line for each entity, or lines of JSON with path"
        " and value of each entity; auto: a tree on a terminal, JSON on a pipe."
    ),
)
@click.option(
    "--show-secrets",
    is_flag=True,
    help="Do not hide SCRAM keys and the values of sensitive configs.",
)
def command(
    sources: tuple[Path, ...],
    servers: tuple[Address, ...] | None,
    config: Path | None,
    at: At | None,
    place: str,
    output: str,
    show_secrets: bool,
) -> None:
    """Print the state that a metadata log leads to, in the layout of kafka-metadata-shell.

    SOURCE is a __cluster_metadata-0 directory or its parent, or segments and snapshots (.log,
    .checkpoint). The state is the one after all of their records; --at ends earlier. A --path
    without * ? [] prints one value, another one an object of all matches by their paths.
    /topics/orders is short for /topics/byName/orders.
    """
    from kwire.cluster.shell_view import shell_view

    state = _load(sources, servers, config, at or At())
    for note in state.notes:
        tell(note)
    root = shell_view(state.image, show_secrets=show_secrets, time=state.time)
    if output == "lines":
        lines = entity_lines(*select_all(root, place)[0])
    else:
        lines = (json_lines if wants_json(output) else tree_lines)(select(root, place))
    for line in lines:
        click.echo(line)


def select(root: dict[str, Any], place: str) -> Any:
    """Return the value at ``place``, or an object of all matches by their paths. Raises
    click.ClickException if nothing matches.
    """
    found, several = select_all(root, place)
    return {path_text(path): node for path, node in found} if several else found[0][1]


def select_all(root: dict[str, Any], place: str) -> tuple[list[tuple[_Path, Any]], bool]:
    """Return the matches of ``place`` with their paths, and whether it is a pattern. A backslash
    makes the next character literal.

    Raises click.ClickException if nothing matches.
    """
    names = _NAMES_PER_LEVEL.findall(place)
    if names[:1] == ["image"]:  # the root's name in kafka-metadata-shell
        del names[0]
    if names[:1] == ["topics"] and len(names) > 1 and names[1] not in root["topics"]:
        names.insert(1, "byName")
    found: list[tuple[_Path, Any]] = [((), root)]
    several = False
    for name in names:
        inside = [(path, node) for path, node in found if isinstance(node, dict)]
        several |= any(_unescaped(name) not in node for _, node in inside) and bool(
            _GLOB.search(_ESCAPE.sub("", name))
        )
        deeper = [(way, one) for path, node in inside for way, one in _children(path, node, name)]
        if not deeper:
            raise click.ClickException(_nothing(place, name, inside))
        found = deeper
    return found, several


def path_text(path: tuple[str, ...]) -> str:
    """Return a path as ``--path`` takes it, ``/topics/byName/orders``; a slash in a name gets a
    backslash.
    """
    return "/" + "/".join(re.sub(r"([\\/])", r"\\\1", name) for name in path)


def json_lines(node: Any, indent: str = "", before: str = "", behind: str = "") -> Iterator[str]:
    """Yield one JSON value, with a line for each object that has no object in it. ``before`` and
    ``behind`` enclose it.
    """
    if not _is_level(node):
        yield f"{indent}{before}{json_text(node)}{behind}"
        return
    yield f"{indent}{before}{{"
    last = len(node) - 1
    for number, (name, value) in enumerate(node.items()):
        comma = "" if number == last else ","
        yield from json_lines(value, indent + "  ", f"{json_text(name)}: ", comma)
    yield f"{indent}}}{behind}"


def entity_lines(*found: tuple[_Path, Any]) -> Iterator[str]:
    """Yield a JSON object for each entity at or below these paths. An object inside an entity, such
    as a partition of a topic, has a line of its own.
    """
    for path, node in found:
        if not _is_level(node):
            yield json_line({"path": path_text(path), "value": node})
            continue
        if own := {name: one for name, one in node.items() if not _is_filled(one)}:
            yield json_line({"path": path_text(path), "value": own})
        inside = ((name, one) for name, one in node.items() if _is_filled(one))
        yield from entity_lines(*(((*path, name), one) for name, one in inside))


def _is_level(node: Any) -> bool:
    """Whether a value of the tree is an object with objects in it."""
    return isinstance(node, dict) and any(map(_is_filled, node.values()))


def _is_filled(node: Any) -> bool:
    return isinstance(node, dict) and bool(node)


def tree_lines(node: Any, indent: str = "") -> Iterator[str]:
    """Yield a tree as indented lines, values behind their names."""
    if not isinstance(node, dict):
        yield indent + value_text(node)
        return
    for name, value in node.items():
        head = f"{indent}{click.style(value_text(name), bold=True)}:"
        if isinstance(value, dict):
            yield head
            yield from tree_lines(value, indent + "  ")
        else:
            yield f"{head} {value_text(value)}"


def value_text(value: Any) -> str:
    """Return a value on one line: text as it is if a terminal may print it, else JSON."""
    return (
        value
        if isinstance(value, str) and value.isprintable() and value.strip() == value != ""
        else json.dumps(value)
    )


def _load(
    sources: tuple[Path, ...], servers: tuple[Address, ...] | None, config: Path | None, at: At
) -> State:
    if bool(sources) == (servers is not None):
        raise click.UsageError("name files or a directory, or a server with -b")
    if servers is not None:
        from gateway.cli.state_server import load_server

        return load_server(server_of(servers, config), at)
    from gateway.cli.state_files import load_files

    return load_files(sources, at)


def _children(
    path: tuple[str, ...], node: dict[str, Any], name: str
) -> list[tuple[tuple[str, ...], Any]]:
    """Return the children of ``node`` with this name, or else those that match it as a pattern."""
    exact = _unescaped(name)
    if exact in node:
        return [((*path, exact), node[exact])]
    pattern = _ESCAPE.sub(lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], name)
    return [((*path, one), node[one]) for one in node if fnmatch.fnmatchcase(one, pattern)]


def _unescaped(name: str) -> str:
    return _ESCAPE.sub(r"\1", name)


def _nothing(place: str, name: str, inside: list[tuple[tuple[str, ...], Any]]) -> str:
    """Return the error text for a name that matches nothing, with close names."""
    if len(inside) != 1:
        return (
            f"nothing at {place}:"
            f" {'none of what matches before it' if inside else 'no name before it'} leads to"
            f" {name}"
        )
    path, node = inside[0]
    near = difflib.get_close_matches(name, node, 3) or list(node)[:8]
    return f"nothing at {place}: {path_text(path)} has no {name}" + (
        f"; it has {', '.join(near)}" if near else "; it is empty"
    )
