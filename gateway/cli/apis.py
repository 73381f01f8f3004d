"""Implements ``kwire apis``: compares the APIs of a server with those of the codec and of ``kwire
serve``.

It sends one ApiVersions request on a blocking socket, encoded by ``kwire.messages``, and no other
request.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import click

from gateway.address import Address
from gateway.cli.address import parse_address, parse_seconds
from gateway.sizes import MIB
from gateway.version import installed_version
from kwire.errors import WireError
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from kwire.messages.api_versions_response import ApiVersionsResponse

_API_VERSIONS: Final = ApiKey.API_VERSIONS
_UNSUPPORTED_VERSION: Final = 35
#: Version 5 names the expected cluster and node; this command expects none.
_FIRST_VERSION: Final = 4
#: Larger than any response: 75 APIs take a kilobyte.
_ANSWER_BYTES_MAX: Final = MIB


@click.command(
    "apis",
    short_help="Compare a server's API versions with kwire's.",
    epilog="""\b
Examples:
  kwire apis -b localhost:9092
  kwire apis -b localhost:9092 | jq 'select(.usable == null)'""",
)
@click.option(
    "-b",
    "--bootstrap-server",
    "server",
    required=True,
    metavar="HOST:PORT",
    type=parse_address,
    help="The server to ask.",
)
@click.option(
    "--timeout",
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    type=parse_seconds,
    help="How long to wait for the server.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["auto", "table", "json"]),
    default="auto",
    show_default=True,
    help="A table, or a JSON line for each API; auto: a table on a terminal, lines on a pipe.",
)
def command(server: Address, timeout: float, output: str) -> None:
    """Ask a Kafka server for its APIs, and print the versions of each: the server's, the codec's,
    those of `kwire serve`, and the newest that client and server would use together.
    """
    where = str(server)
    try:
        answer = ask(server, timeout)
    except (OSError, UnicodeError, WireError) as error:
        raise click.ClickException(f"{where}: {_explain(error)}") from None
    if answer.error_code:
        from gateway.error_text import error_with_code

        raise click.ClickException(
            f"{where}: answers ApiVersions with {error_with_code(answer.error_code)}"
        )
    found = list(rows(answer))
    if output == "table" or (output == "auto" and sys.stdout.isatty()):
        _print_table(where, found, answer)
    else:
        for row in found:
            click.echo(json.dumps(row))


def ask(server: Address, timeout: float) -> ApiVersionsResponse:
    """Return the server's response to ApiVersions. The request is repeated at the version that the
    server names if it does not know the newest (KIP-511).

    ``timeout`` in seconds, for each step. Raises OSError, or DecodeError for an invalid response.
    """
    with socket.create_connection(server, timeout) as connection:
        connection.settimeout(timeout)
        answer = _in_flight(connection, _FIRST_VERSION)
        if answer.error_code == _UNSUPPORTED_VERSION:
            newest = next(
                (key.max_version for key in answer.api_keys if key.api_key == _API_VERSIONS), 0
            )
            answer = _in_flight(connection, min(newest, _FIRST_VERSION))
        return answer


def rows(answer: ApiVersionsResponse) -> Iterator[dict[str, Any]]:
    """Return one mapping for each API of the server, the codec or ``kwire serve``, in the order of
    the keys.

    Versions are [oldest, newest], None without any; ``usable`` is the newest that codec and server
    share.
    """
    from gateway.handlers.table import handlers
    from kwire.messages import BY_KEY

    server_versions = {key.api_key: [key.min_version, key.max_version] for key in answer.api_keys}
    codec = {
        number: _codec_versions(name)
        for (kind, number), name in BY_KEY.items()
        if kind == "request"
    }
    serve = {
        key: [handler.versions[0], handler.versions[-1]] for key, handler in handlers().items()
    }
    encoded = {key for key, versions in codec.items() if versions}
    for key in sorted({*server_versions, *encoded, *serve}):
        name = BY_KEY.get(("request", key), f"{key}").removesuffix("Request")
        server, known = server_versions.get(key), codec.get(key)
        usable = min(server[1], known[1]) if server and known else None
        if usable is not None and server and known and usable < max(server[0], known[0]):
            usable = None
        yield {
            "key": key,
            "api": name,
            "server": server,
            "codec": known,
            "serve": serve.get(key),
            "usable": usable,
        }


def _codec_versions(name: str) -> list[int] | None:
    import kwire

    versions = kwire.message_type(name).VERSIONS
    return [versions[0], versions[-1]] if len(versions) else None


def _in_flight(connection: socket.socket, api_version: int) -> ApiVersionsResponse:
    from kwire.frame import frame
    from kwire.header import decode_response_header, encode_request_header
    from kwire.messages.api_versions_request import ApiVersionsRequest
    from kwire.messages.api_versions_response import ApiVersionsResponse

    body = ApiVersionsRequest(
        client_software_name="kwire", client_software_version=installed_version()
    )
    header = encode_request_header(
        _API_VERSIONS, api_version, correlation_id=1, client_id="kwire-apis"
    )
    connection.sendall(frame(header, body.encode(api_version)))
    data = _receive(connection)
    _, at = decode_response_header(_API_VERSIONS, api_version, data)
    # A server that does not know the version answers in version 0, with which every version begins.
    refused = int.from_bytes(data[at : at + 2], "big", signed=True) == _UNSUPPORTED_VERSION
    answer, _ = ApiVersionsResponse.decode_from(data, 0 if refused else api_version, at)
    return answer


def _receive(connection: socket.socket) -> bytes:
    from kwire.frame import FrameSplitter

    splitter = FrameSplitter(_ANSWER_BYTES_MAX)
    while (whole := splitter.next_frame()) is None:
        data = connection.recv(65536)
        if not data:
            raise ConnectionError(
                "closed the connection without an answer: not a Kafka listener, or one that wants"
                " TLS or SASL"
            )
        splitter.feed(data)
    return whole


def _print_table(where: str, found: list[dict[str, Any]], answer: ApiVersionsResponse) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"APIs of {where}", title_justify="left", header_style="bold", row_styles=("", "dim")
    )
    for heading, justify in (
        ("key", "right"),
        ("API", "left"),
        ("server", "right"),
        ("codec", "right"),
        ("serve", "right"),
    ):
        table.add_column(heading, justify=cast(Any, justify))
    table.add_column("usable", justify="right", style="green")
    for row in found:
        usable = "" if row["usable"] is None else str(row["usable"])
        table.add_row(
            str(row["key"]),
            row["api"],
            *(_span(row[who]) for who in ("server", "codec", "serve")),
            usable,
        )
    console = Console()
    console.print(table)
    for feature in answer.supported_features:
        levels = [f.max_version_level for f in answer.finalized_features if f.name == feature.name]
        console.print(
            f"{feature.name}: {feature.min_version}-{feature.max_version}, finalized"
            f" {levels[0] if levels else 0}"
        )


def _span(versions: list[int] | None) -> str:
    if versions is None:
        return "-"
    return str(versions[0]) if versions[0] == versions[1] else f"{versions[0]}-{versions[1]}"


def _explain(error: Exception) -> str:
    if isinstance(error, WireError):
        return f"what it answers is not Kafka's protocol: {error}"
    return "no answer in time" if isinstance(error, TimeoutError) else str(error)
