"""Implements ``kwire format``: formats the data directory of a node, as Kafka's ``kafka-storage
format`` does.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.base.address import Address
from gateway.cli.format_values import parse_controllers, parse_feature, parse_scram
from gateway.cli.lines import output_option, wants_json
from kwire.protocol.metadata_version import (
    LATEST_PRODUCTION_METADATA_VERSION,
    METADATA_VERSION,
    RELEASES,
    is_scram_supported,
)

if TYPE_CHECKING:
    from gateway.config.config import Config
    from gateway.log.metadata.formatting import Formatting
    from gateway.log.partition.log_directories import LogDirectory
    from kwire.messages.voters_record import Voter, VotersRecord
    from kwire.uuid import Uuid

RANDOM: Final = "random"
#: Options that set a key of the configuration.
_KEYS: Final = {
    "node_id": "node.id",
    "data_dir": "data.dir",
    "listeners": "listeners",
    "advertised": "advertised.listeners",
}


@click.command(
    "format",
    short_help="Format a node's data directory.",
    context_settings={"max_content_width": 120},
    epilog="""\b
Examples:
  kwire format --cluster-id random --data-dir /var/lib/kwire/1 --standalone
  kwire format --random-uuid                         print an id for a cluster or a directory
  kwire format -t 0JaTQd0lTVGcVpdCCW-ZFg -c node2.properties --initial-controllers \\
      1@ctl1:9093:lzJaB1TCSYWnS1bFxNvWVQ,2@ctl2:9093:0bBAkkQZQhmxE3aPcZJ8Uw
  kwire format -t 0JaTQd0lTVGcVpdCCW-ZFg -c node4.properties --no-initial-controllers
                                                     join a running quorum
  kwire format -t 0JaTQd0lTVGcVpdCCW-ZFg -c static.properties
                                                     controller.quorum.voters is in the file
  kwire format -t 0JaTQd0lTVGcVpdCCW-ZFg -c node1.properties --standalone \\
      --add-scram 'SCRAM-SHA-512=[name=admin,password=...]'

Exit status: 1 if the directory cannot be formatted, 2 if the options contradict each other. A
single new node needs no format: kwire serve formats its directory.""",
)
@click.option(
    "-t",
    "--cluster-id",
    metavar="ID",
    help=f"The cluster, the same on all its nodes; '{RANDOM}' makes a new one.",
)
@click.option(
    "-c",
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help=(
        "The properties file of the node, as for kwire serve: node.id, data.dir, listeners,"
        " controller.quorum.voters."
    ),
)
@click.option("--node-id", metavar="N", help="node.id; overrides the file.")
@click.option("--data-dir", metavar="DIR", help="data.dir; overrides the file.")
@click.option("--listeners", metavar="TEXT", help="listeners; overrides the file.")
@click.option(
    "--advertised-listeners",
    "advertised",
    metavar="TEXT",
    help="advertised.listeners; overrides the file.",
)
@click.option(
    "-s",
    "--standalone",
    is_flag=True,
    help="This node is the only initial voter of a dynamic quorum.",
)
@click.option(
    "-I",
    "--initial-controllers",
    "controllers",
    metavar="ID@HOST:PORT:DIRECTORYID[,...]",
    callback=lambda _, __, text: text and parse_controllers(text),
    help="The initial voters of a dynamic quorum, the same on all its nodes.",
)
@click.option(
    "-N",
    "--no-initial-controllers",
    "joining",
    is_flag=True,
    help="The node joins a running quorum, which knows its voters.",
)
@click.option(
    "-g",
    "--ignore-formatted",
    is_flag=True,
    help="Do nothing if the directory is already formatted.",
)
@click.option(
    "-r",
    "--release-version",
    "release",
    metavar="RELEASE",
    help=(
        "The release whose features to finalize."
        f" [default: {RELEASES[LATEST_PRODUCTION_METADATA_VERSION]}]"
    ),
)
@click.option(
    "-f",
    "--feature",
    "features",
    metavar="NAME=LEVEL",
    multiple=True,
    callback=lambda _, __, all: [*map(parse_feature, all)],
    help="The level of one feature, metadata.version among them. Repeatable.",
)
@click.option(
    "-S",
    "--add-scram",
    "credentials",
    metavar="MECHANISM=[name=NAME,password=PASSWORD]",
    multiple=True,
    callback=lambda _, __, all: parse_scram(all),
    help=(
        "A user that can log in from the first start on, the same on all nodes; also with"
        " iterations=, and salt= and saltedpassword= in base64 in place of password=. Repeatable."
    ),
)
@click.option("--random-uuid", is_flag=True, help="Print a new id and do nothing else.")
@output_option("auto: text on a terminal, JSON on a pipe.")
def command(
    file: Path | None, ignore_formatted: bool, random_uuid: bool, output: str, **given: Any
) -> None:
    """Format the data directory of a node: its id, the first voters, the cluster's features. The
    other directories of log.dirs get their ids.

    The files are those of kafka-storage format: a controller of Kafka starts on a directory that
    this command formatted, and kwire serve on one that Kafka formatted.
    """
    from gateway.log.files.errors import LogError
    from gateway.log.metadata import formatting

    if random_uuid:
        click.echo(str(formatting.random_uuid()))
        return
    config = _config(file, given)
    wanted = _wanted(config, given)
    data_dir = _data_dir(config)
    try:
        known = (
            formatting.check_formatted(data_dir, wanted.cluster_id, wanted.node_id)
            if ignore_formatted
            else None
        )
        if known is None:
            formatting.format_directory(data_dir, wanted)
        others = _format_log_directories(config, data_dir, wanted)
    except LogError as error:
        raise click.ClickException(str(error)) from None
    directory_id = known.directory_id if known else wanted.directory_id
    is_new, as_json = known is None, wants_json(output)
    _say(data_dir, wanted, directory_id, others, is_new=is_new, as_json=as_json)


def _config(file: Path | None, given: dict[str, Any]) -> Config:
    from gateway.config.config import ConfigError
    from gateway.config.loading import given_texts, load_config

    flags = {key: given[name] for name, key in _KEYS.items() if given[name] is not None}
    texts = given_texts([], environment=os.environ, file=file)
    if texts.get("process.roles", ("", ""))[1].strip() != "broker":
        flags["source"] = "own"
    try:
        return load_config(flags=flags, environment=os.environ, file=file)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"kwire format: {problem}", err=True)
        sys.exit(2)


def _format_log_directories(
    config: Config, data_dir: Path, wanted: Formatting
) -> list[LogDirectory]:
    """Format the other directories of ``log.dirs``, which may be this node's already. Raises
    LogError.
    """
    from gateway.log.files.disk import Disk
    from gateway.log.metadata.formatting import random_uuid
    from gateway.log.partition.log_directories import LogDirectory, is_same

    formatted = []
    for path in config.log_dirs:
        if not is_same(path, data_dir):
            owner = wanted.cluster_id, wanted.node_id
            one = LogDirectory.open(path, *owner, Disk(), [], random_uuid)
            one.close()
            if not one.is_online:
                raise click.ClickException(one.fault)
            formatted.append(one)
    return formatted


def _data_dir(config: Config) -> Path:
    from gateway.server.sources.local_security import data_dir

    return data_dir(config)


def _wanted(config: Config, given: dict[str, Any]) -> Formatting:
    """Return the contents of the directory. Raises click.UsageError for options that contradict
    each other.
    """
    from gateway.log.metadata.formatting import Formatting, random_uuid

    directory_id = random_uuid()
    _check_voters(config, given)
    voters = None
    if given["standalone"]:
        voters = _voters_record([_self(config, directory_id)])
    elif given["controllers"]:
        voters = _named(config, given["controllers"])
        directory_id = next(
            (one for id, _, one in given["controllers"] if id == config.node_id), directory_id
        )
    features = _features(given, is_dynamic=voters is not None)
    _check_users(given, level=dict(features)[METADATA_VERSION])
    return Formatting(
        _cluster_id(given["cluster_id"]),
        config.node_id,
        directory_id,
        features,
        voters,
        given["credentials"],
    )


def _check_users(given: dict[str, Any], *, level: int) -> None:
    from gateway.log.metadata import releases

    if given["credentials"] and not is_scram_supported(level):
        raise click.UsageError(
            f"--add-scram: {releases.release_of(level)} has no SCRAM users: 3.5-IV2 is the oldest"
            " that has"
        )


def _check_voters(config: Config, given: dict[str, Any]) -> None:
    """Check that the options name the voters in exactly one way."""
    ways = [given["standalone"], bool(given["controllers"]), given["joining"]]
    if sum(ways) > 1:
        raise click.UsageError(
            "give only one of --standalone, --initial-controllers and --no-initial-controllers"
        )
    static = bool(config.controller_quorum_voters)
    if config.is_broker_alone:
        if given["standalone"]:
            raise click.UsageError("--standalone is for a controller: process.roles is broker")
        return
    if static and any(ways):
        raise click.UsageError(
            "controller.quorum.voters names the voters of a static quorum: remove it, or"
            " --standalone, --initial-controllers or --no-initial-controllers"
        )
    if not static and not any(ways):
        raise click.UsageError(
            "controller.quorum.voters is not set: give one of --standalone, --initial-controllers"
            " and --no-initial-controllers"
        )


def _cluster_id(text: str | None) -> str:
    from gateway.log.metadata.formatting import random_uuid
    from kwire.uuid import Uuid

    if text is None:
        raise click.UsageError(
            f"--cluster-id is needed: the id of the cluster, or '{RANDOM}' for the first node of a"
            " new one"
        )
    if text == RANDOM:
        return str(random_uuid())
    try:
        return str(Uuid.parse(text))
    except ValueError as error:
        raise click.UsageError(
            f"--cluster-id: {error}; 'kwire format --random-uuid' makes one"
        ) from None


def _self(config: Config, directory_id: Uuid) -> Voter:
    """Return this node as a voter, with its controllers' listeners as other nodes reach them."""
    from gateway.log.metadata.formatting import voter

    advertised = {listener.name: listener for listener in config.advertised_listeners}
    told = [advertised.get(one.name, one) for one in config.controller_listeners]
    for listener in told:
        if not listener.port:
            raise click.UsageError(
                f"listeners: {listener} needs a fixed port, which the other nodes connect to"
            )
    return voter(
        config.node_id, directory_id, {one.name: Address(one.host, one.port) for one in told}
    )


def _named(config: Config, controllers: list[tuple[int, Address, Uuid]]) -> VotersRecord:
    from gateway.log.metadata.formatting import voter

    name = config.controller_listener_names[0]
    return _voters_record(
        [voter(id, directory_id, {name: address}) for id, address, directory_id in controllers]
    )


def _voters_record(voters: list[Voter]) -> VotersRecord:
    from kwire.messages.voters_record import VotersRecord

    return VotersRecord(version=0, voters=voters)


def _features(given: dict[str, Any], *, is_dynamic: bool) -> tuple[tuple[str, int], ...]:
    """Return the requested features (``releases.features_of``), which must be possible in the kind
    of quorum.
    """
    from gateway.log.metadata import releases

    chosen: dict[str, int] = dict(given["features"])
    kraft = chosen.pop(releases.KRAFT_VERSION, int(is_dynamic))
    level = chosen.pop(releases.METADATA_VERSION, None)
    try:
        if level is not None and given["release"] is not None:
            raise ValueError(
                f"give --release-version or --feature {releases.METADATA_VERSION}=N, not both"
            )
        if level is None:
            level = releases.level_of(given["release"]) if given["release"] else releases.LEVEL_MAX
        if kraft != is_dynamic and not (kraft == 1 and given["joining"]):
            raise ValueError(
                f"{releases.KRAFT_VERSION}={kraft}: it is 1 with --standalone,"
                " --initial-controllers or --no-initial-controllers and 0 with"
                " controller.quorum.voters"
            )
        if is_dynamic and level < releases.DYNAMIC_QUORUM_LEVEL:
            needed = releases.release_of(releases.DYNAMIC_QUORUM_LEVEL)
            raise ValueError(
                f"{releases.release_of(level)} has no dynamic quorums: {needed} is the oldest"
                " that has"
            )
        return releases.features_of(level, chosen)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _say(
    data_dir: Path,
    wanted: Formatting,
    directory_id: Uuid | None,
    others: list[LogDirectory],
    *,
    is_new: bool,
    as_json: bool,
) -> None:
    facts = {
        "formatted": is_new,
        "data.dir": str(data_dir),
        "cluster.id": wanted.cluster_id,
        "node.id": wanted.node_id,
        "directory.id": None if directory_id is None else str(directory_id),
        "features": dict(wanted.features),
        "voters": [one.voter_id for one in wanted.voters.voters] if wanted.voters else None,
        "users": sorted({one.name for one in wanted.credentials}),
    }
    if not is_new:
        facts = {
            name: facts[name]
            for name in ("formatted", "data.dir", "cluster.id", "node.id", "directory.id")
        }
    if others:
        facts["log.dirs"] = {str(one.path): str(one.id) for one in others}
    if as_json:
        click.echo(json.dumps(facts))
        return
    if is_new:
        click.echo(
            f"formatted {data_dir} for node {wanted.node_id} of cluster {wanted.cluster_id},"
            f" directory {directory_id}"
        )
    else:
        click.echo(
            f"{data_dir} is formatted already for node {wanted.node_id} of cluster"
            f" {wanted.cluster_id}: left as it is"
        )
    for one in others:
        click.echo(f"{one.path} is formatted for logs of partitions, directory {one.id}")
