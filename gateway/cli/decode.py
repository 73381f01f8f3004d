"""Implements ``kwire decode``: prints segments and snapshots of the metadata log as JSON lines.

It reads in a stream, so that files may have any size.
"""

from __future__ import annotations

import base64
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.base.sizes import MIB
from gateway.cli.lines import json_line, note, output_option, text_line, wants_json
from gateway.cli.progress import Progress
from kwire.protocol import CLUSTER_METADATA_PARTITION

if TYPE_CHECKING:
    from kwire.errors import DecodeError
    from kwire.records import BatchHeader, Record

#: A smaller file is read before a bar could be drawn.
_PROGRESS_BYTES_MIN: Final = 32 * MIB


@click.command(
    "decode",
    short_help="Decode log segments and snapshots.",
    epilog="""\b
Examples:
  kwire decode /var/lib/kafka/__cluster_metadata-0/00000000000000000000.log
  kwire decode *.log | jq -c 'select(.type == "CONFIG_RECORD").data'
  kwire decode 00000000000000007532-0000000004.checkpoint --show-secrets

Exit status: 1 if a file is damaged or a record cannot be decoded; the rest is printed.""",
)
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, path_type=Path),
)
@output_option("Lines for people, or JSON lines; auto: for people on a terminal, JSON on a pipe.")
@click.option(
    "--show-secrets",
    is_flag=True,
    help="Do not hide SCRAM keys and the values of sensitive configs.",
)
@click.option("--skip-control", is_flag=True, help="Leave control records out.")
def command(files: tuple[Path, ...], output: str, show_secrets: bool, skip_control: bool) -> None:
    """Print every record of .log and .checkpoint FILEs as JSON lines.

    \b
      {"offset": 7, "epoch": 1, "timestamp": 1795231027885,
       "type": "TOPIC_RECORD", "version": 0, "data": {...}}
      {"offset": 0, "epoch": 1, "timestamp": 1795231027218,
       "control": "LeaderChange", "data": {...}}

    The lines are in the order of the file. A directory stands for the segments in it. SCRAM keys,
    the values of configs of type PASSWORD or of an unknown type, and the bytes of records that
    cannot be read are hidden unless --show-secrets is given.
    """
    show = json_line if wants_json(output) else text_line
    clean = True
    for path in [found for name in files for found in _expand(name)]:
        with contextlib.closing(_progress(path)) as progress:
            clean &= _decode_file(
                path, show_secrets, skip_control, lambda line: click.echo(show(line)), progress
            )
    sys.exit(0 if clean else 1)


def _expand(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inside = path / CLUSTER_METADATA_PARTITION
    found = sorted((inside if inside.is_dir() else path).glob("*.log"))
    if not found:
        raise click.ClickException(
            f"{path}: no *.log in it; name a __cluster_metadata-0 directory or files"
        )
    return found


def _progress(path: Path) -> Progress:
    """The bar for a large file; none where the records are printed on the same terminal."""
    size = 0 if sys.stdout.isatty() else os.stat(path).st_size
    return Progress(size, _PROGRESS_BYTES_MIN, path.name)


def _decode_file(
    path: Path,
    show_secrets: bool,
    skip_control: bool,
    emit: Callable[[dict[str, Any]], None],
    progress: Progress,
) -> bool:
    """Print one file; return True if every record of it could be decoded."""
    from kwire.errors import DecodeError
    from kwire.metadata_log.reader import read_log_file

    clean = True
    try:
        if not path.stat().st_size:
            note(f"{path}: is empty: no record was written yet, or the file was cut off")
        for header, records in read_log_file(path):
            progress.at(header.position)
            for line in _lines(header, records, show_secrets, skip_control):
                clean &= "error" not in line
                emit(line)
    except DecodeError as error:
        note(f"{path}: byte {error.offset}: {_fault(path, error)}")
        return False
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    return clean


def _fault(path: Path, error: DecodeError) -> str:
    """Say what is wrong with a file from ``error.offset`` on: damage, a batch that is not whole, or
    content that was never a log.
    """
    if not error.offset and not _begins_as_log(path):
        return f"is no Kafka log or snapshot: {error.reason}"
    if error.rule == "truncated":
        return "ends inside a batch: still being written, or cut off"
    return f"damaged: {error.reason}"


def _begins_as_log(path: Path) -> bool:
    """Whether the first bytes can be those of an offset: no log has 2^48 records, and nearly every
    other file begins with another byte.
    """
    with path.open("rb") as file:
        return not any(file.read(2))


def _lines(
    header: BatchHeader, records: list[Record], show_secrets: bool, skip_control: bool
) -> Iterator[dict[str, Any]]:
    if header.is_control and skip_control:
        return
    describe = _control if header.is_control else _data
    for record in records:
        yield {
            "offset": record.offset,
            "epoch": header.partition_leader_epoch,
            "timestamp": record.timestamp,
        } | describe(record, show_secrets)


def _control(record: Record, show_secrets: bool) -> dict[str, Any]:
    from kwire.errors import WireError
    from kwire.records import decode_control_record
    from kwire.records.redact import REDACTED

    try:
        control = decode_control_record(record)
    except WireError as error:
        return _failure(record, error, show_secrets)
    if control.message is None:
        value = base64.b64encode(record.value or b"").decode("ascii") if show_secrets else REDACTED
        return {"control": "UNKNOWN", "data": {"type": control.type, "value": value}}
    return {"control": control.dump_name, "data": control.message.to_json(0)}


def _data(record: Record, show_secrets: bool) -> dict[str, Any]:
    from kwire.errors import WireError
    from kwire.records import decode_metadata_record
    from kwire.records.redact import redact

    try:
        name, version, message = decode_metadata_record(record.value or b"")
        data = message.to_json(version)
    except WireError as error:
        return _failure(record, error, show_secrets)
    return {"type": name, "version": version, "data": data if show_secrets else redact(name, data)}


def _failure(record: Record, error: Exception, show_secrets: bool) -> dict[str, Any]:
    """Describe a record that cannot be decoded: the reason, and its bytes if secrets are shown:
    they may contain some.
    """
    from kwire.records.redact import REDACTED

    if record.value is None:
        return {"error": str(error), "value": None}
    return {
        "error": str(error),
        "value": base64.b64encode(record.value).decode("ascii") if show_secrets else REDACTED,
    }
