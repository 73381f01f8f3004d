"""Implements ``kwire dissect``: prints bytes of Kafka's protocol as an annotated tree with byte
ranges.

Takes a frame or message in hex, base64 or a file, or a packet capture. Reads with
``kwire.reference``, whose parsers know the place of every value; ``kwire.dissect`` opens records
and Envelope requests inside messages.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from gateway.base.address import Address
from gateway.base.sizes import MIB
from gateway.cli.dissection import Dissection
from gateway.cli.lines import wants_json

if TYPE_CHECKING:
    from kwire.reference import Budget, Node, Reference

#: A larger file is not read into memory; captures of any size are read packet by packet.
INPUT_BYTES_MAX: Final = 128 * MIB
#: The size of a response without a field: its correlation id.
_FRAME_BYTES_MIN: Final = 4
#: After so many frames in a row that do not decode, the bytes are taken for something else.
BROKEN_FRAMES_MAX: Final = 1000


@click.command(
    "dissect",
    short_help="Show the bytes of a message as an annotated tree.",
    epilog="""\b
Examples:
  kwire dissect --hex 00120000000000070003666f6f
  kwire dissect --hex 00000007000000000000 --response --api ApiVersions --version 0
  kwire dissect --base64 AQwAEW1ldGFkYXRhLnZlcnNpb24AGwA= --metadata-record
  kwire dissect body.bin --message PartitionRecord --version 2
  kwire dissect --records traffic.pcapng
  tcpdump -i lo -U -w - port 9092 | kwire dissect - --port 9092 --api Fetch""",
)
@click.argument("file", required=False, metavar="[FILE]", type=click.File("rb"))
@click.option(
    "--hex",
    "hex_text",
    metavar="HEX",
    help="The bytes in hex; blanks, line ends and colons are passed over.",
)
@click.option(
    "--base64", "base64_text", metavar="TEXT", help="The bytes in base64, of either alphabet."
)
@click.option(
    "--api",
    metavar="NAME|KEY",
    help=(
        "The API, such as Fetch or 1. A request with a header names its own; in a capture: only"
        " this API."
    ),
)
@click.option("--version", type=int, metavar="N", help="The version of the API or message.")
@click.option(
    "--request",
    "kind",
    flag_value="request",
    help="The bytes are a request (the default); in a capture: only requests.",
)
@click.option(
    "--response", "kind", flag_value="response",
    help="The bytes are a response: give --api and --version too; in a capture: only responses.",
)  # fmt: skip
@click.option(
    "--header/--no-header",
    default=True,
    show_default=True,
    help="Whether a request or response header comes first.",
)
@click.option(
    "--message",
    metavar="NAME",
    help="The bytes are one message, any schema: PartitionRecord, RequestHeader ...",
)
@click.option(
    "--family", default="kafka", show_default=True, metavar="NAME",
    help="Where --message is from: kafka, or a KIP's text, such as kip/595.",
)  # fmt: skip
@click.option(
    "--metadata-record",
    is_flag=True,
    help="The bytes are the value of a record of the metadata log.",
)
@click.option(
    "--port", "ports", type=int, multiple=True, metavar="PORT",
    help="In a capture: a server's port. By default all connections are read.",
)  # fmt: skip
@click.option(
    "--records", is_flag=True,
    help="Decode record batches, metadata and control records, and Envelope requests inside.",
)  # fmt: skip
@click.option(
    "--show-secrets",
    is_flag=True,
    help="Do not hide passwords, keys, tokens and the values of sensitive configs.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["auto", "tree", "json"]),
    default="auto",
    show_default=True,
    help=(
        "A tree for people, or one JSON line for each frame; auto: a tree on a terminal, lines on a"
        " pipe."
    ),
)
@click.pass_context
def command(
    context: click.Context,
    /,
    file: BinaryIO | None,
    output: str,
    records: bool,
    show_secrets: bool,
    **how: Any,
) -> None:
    """Print Kafka's bytes as a tree: every field with its byte range, type and value.

    FILE is a packet capture (pcap, pcapng), or a frame or message as raw bytes; - is standard
    input. Frames may have their four size bytes or not. The exit status is 1 if something did not
    decode: the tree then ends with the fault and its place.
    """
    from gateway.cli.dissect_output import json_line, tree_text
    from kwire.dissect.inside import hide_secrets, open_records

    wanted = DissectOptions(**how)
    if wanted.api is not None:
        wanted.api_key()  # a name that no API has is wrong usage, whatever the bytes are
    as_json = wants_json(output)
    broken = False
    try:
        for found in _dissections(file, wanted):
            if records:
                open_records(found.tree, found.budget)
            broken = broken or found.tree.failure() is not None
            if not show_secrets:
                hide_secrets(found.tree)
            click.echo(json_line(found, show_secrets) if as_json else tree_text(found))
    except OSError as error:
        name = "standard input" if file is None else file.name
        raise click.ClickException(f"{name}: cannot be read: {error.strerror or error}") from None
    if broken:
        context.exit(1)


@dataclass(frozen=True)
class DissectOptions:
    """The options that describe the bytes."""

    hex_text: str | None
    base64_text: str | None
    api: str | None
    version: int | None
    kind: str | None
    header: bool
    message: str | None
    family: str
    metadata_record: bool
    ports: tuple[int, ...]

    def api_key(self) -> int:
        """Return ``--api`` as a number. Raises click.UsageError if it is missing or unknown."""
        from kwire.errors import UnknownApi
        from kwire.reference.facts import facts, name_by_key

        if self.api is None:
            raise click.UsageError("--api is missing: the API of the bytes")
        try:
            if re.fullmatch(r"-?[0-9]{1,5}", self.api):
                name_by_key("request", int(self.api))
                return int(self.api)
            key: int = facts(f"{self.api.removesuffix('Request').removesuffix('Response')}Request")[
                "apiKey"
            ]
        except UnknownApi:
            raise click.UsageError(
                f"no API is called {self.api!r}; names are like Fetch, numbers like 1"
            ) from None
        return key

    def known_version(self) -> int:
        """Return ``--version``. Raises click.UsageError if it is missing."""
        if self.version is None:
            raise click.UsageError("--version is missing: the version of the bytes")
        return self.version


def _dissections(file: BinaryIO | None, wanted: DissectOptions) -> Iterator[Dissection]:
    sources = [file, wanted.hex_text, wanted.base64_text]
    if sum(source is not None for source in sources) != 1:
        raise click.UsageError("give the bytes once: as FILE, --hex or --base64")
    if file is None:
        yield from _frames(_from_text(wanted), wanted)
        return
    from kwire.reference.capture import is_capture

    start = file.read(4)
    if is_capture(start):
        yield from _capture(_Rejoined(start, file), wanted)
        return
    data = start + file.read(INPUT_BYTES_MAX)
    if len(data) > INPUT_BYTES_MAX:
        raise click.ClickException(
            f"{file.name}: more than {INPUT_BYTES_MAX} bytes, and no packet capture"
        )
    yield from _frames(data, wanted)


def _from_text(wanted: DissectOptions) -> bytes:
    if wanted.hex_text is not None:
        digits = re.sub(r"[\s:]|0[xX]", "", wanted.hex_text)
        try:
            return bytes.fromhex(digits)
        except ValueError as error:
            raise click.BadParameter(f"not hex: {error}", param_hint="--hex") from None
    text = re.sub(r"\s|=", "", wanted.base64_text or "").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise click.BadParameter(f"not base64: {error}", param_hint="--base64") from None


class _Rejoined(io.RawIOBase):
    """A file, maybe a pipe, of which the first bytes were read before."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        self._start, self._rest = start, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        taken, self._start = self._start[:size], self._start[size:]
        return taken + self._rest.read(size - len(taken))


def _frames(data: bytes, wanted: DissectOptions) -> Iterator[Dissection]:
    """Yield each frame of ``data``: those that have their sizes, else all of it as one."""
    from kwire.reference import Budget

    reader = _reader(wanted)
    bounds = list(_sized(data)) if wanted.message is None and not wanted.metadata_record else []
    broken = 0
    for number, (start, end) in enumerate(bounds or [(0, len(data))], 1):
        budget = Budget.for_bytes(end - start)
        tree = reader(data[start:end], budget)
        tree.move(start)
        yield Dissection(tree, data, budget)
        broken = broken + 1 if tree.failure() is not None else 0
        if broken == BROKEN_FRAMES_MAX and number < len(bounds):
            raise click.ClickException(
                f"stopped at byte {end}: {broken} frames in a row do not decode, and"
                f" {len(bounds) - number} more follow; are the bytes of another API, version or"
                " direction (--api, --version, --response)?"
            )


def _sized(data: bytes) -> Iterator[tuple[int, int]]:
    """Return begin and end of each frame behind its size, if ``data`` consists of such frames.

    An impossible size shows that ``data`` is something else: a file of zeros is not a million empty
    frames.
    """
    found = []
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size < _FRAME_BYTES_MIN:
            return iter([])
        found.append((at + 4, at + 4 + size))
        at += 4 + size
    return iter(found if found and at == len(data) else [])


def _reader(wanted: DissectOptions) -> Callable[[bytes, Budget], Node]:
    """Return the function that turns one frame into a tree. Raises click.UsageError for missing
    options.
    """
    from kwire.errors import UnknownApi, UnsupportedVersion
    from kwire.reference import reference
    from kwire.reference.facts import name_by_key
    from kwire.reference.frames import dissect_metadata_record, dissect_request, dissect_response

    if wanted.metadata_record:
        return dissect_metadata_record
    try:
        if wanted.message is not None:
            return _whole(reference(wanted.message, wanted.known_version(), wanted.family))
        kind = wanted.kind or "request"
        if not wanted.header:
            return _whole(reference(name_by_key(kind, wanted.api_key()), wanted.known_version()))
    except (UnknownApi, UnsupportedVersion) as error:
        raise click.UsageError(str(error)) from None
    if kind == "request":
        return dissect_request
    key, version = wanted.api_key(), wanted.known_version()
    return lambda frame, budget: dissect_response(frame, key, version, budget)


def _whole(message: Reference) -> Callable[[bytes, Budget], Node]:
    return lambda data, budget: message.dissect(data, budget=budget)


def _capture(file: Any, wanted: DissectOptions) -> Iterator[Dissection]:
    from kwire.errors import DecodeError
    from kwire.reference.capture import packets
    from kwire.reference.facts import name_by_key
    from kwire.reference.request_matching import match_requests
    from kwire.reference.tcp import segments

    api = (
        name_by_key("request", wanted.api_key()).removesuffix("Request")
        if wanted.api is not None
        else None
    )
    try:
        for one in match_requests(segments(packets(file)), wanted.ports):
            if (api is None or one.api == api) and (wanted.kind is None or one.kind == wanted.kind):
                about = {
                    "time": one.time,
                    "source": str(Address(*one.source)),
                    "target": str(Address(*one.target)),
                    "kind": one.kind,
                    "api": one.api,
                    "version": one.version,
                    "correlation_id": one.correlation_id,
                }
                yield Dissection(one.tree, one.data, one.budget, about)
    except DecodeError as error:
        raise click.ClickException(f"the capture cannot be read: {error}") from None
