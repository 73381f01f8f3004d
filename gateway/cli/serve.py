"""Implements ``kwire serve``: runs the server as a process.

Reads the configuration from flags, environment and file, handles signals, and prints the ready
line.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gateway.cli import service_notify
from gateway.cli.serve_help import GroupedOptions
from gateway.cli.streams import OutputFailed
from gateway.config.config import Config, ConfigError
from gateway.config.keys import KEYS
from gateway.config.loading import load_config
from gateway.config.values import Key
from gateway.ports.services import SourceStopped

if TYPE_CHECKING:
    import trio

    from gateway.server.management.running_server import RunningServer

_F = TypeVar("_F", bound=Callable[..., Any])


def _key_options(function: _F) -> _F:
    """Add a flag for every key of the configuration."""
    for key in reversed(list(KEYS.values())):
        function = _option(key)(function)
    return function


def _option(key: Key) -> Callable[[_F], _F]:
    flags = [f"--{name.replace('.', '-')}" for name in (key.name, *key.aliases)]
    if isinstance(key.default, bool):
        flags = [f"{flags[0]}/--no-{flags[0][2:]}"]
        return click.option(
            key.attribute,
            *flags,
            default=None,
            help=f"{key.help} [default: {str(key.default).lower()}]",
        )
    metavar = "DIR" if key.attribute.endswith(("_dir", "_dirs")) else (key.unit or "TEXT").upper()
    if isinstance(key.default, int):
        metavar = key.unit.upper() or "N"
    shown = _default_text(key)
    return click.option(
        key.attribute,
        *flags,
        metavar=metavar,
        help=f"{key.help}{f' [default: {shown}]' if shown else ''}",
    )


def _default_text(key: Key) -> str:
    if key.name == "listener.security.protocol.map":
        return "every protocol by its own name"
    if isinstance(key.default, tuple | frozenset):
        return ",".join(map(str, key.default))
    return "" if key.default is None else str(key.default)


@click.command(
    "serve",
    cls=GroupedOptions,
    short_help="Serve the metadata log to Kafka clients.",
    epilog="""\b
Every key can also be set in the file given with --config, under its name with dots
(max.connections), and in the environment as KWIRE_ and its name in capitals
(KWIRE_MAX_CONNECTIONS). Flags take precedence over the environment, and both over the file.

\b
Examples:
  kwire serve
  kwire serve --node-id 1 --controller-quorum-voters 1@h1:9093,2@h2:9093,3@h3:9093 \\
      --cluster-id 5L6g3nShT-eMCtK--X86sw
  kwire serve --log-dir /var/lib/kafka/metadata --listeners PLAINTEXT://127.0.0.1:19092
  kwire serve --workers 4
  kwire serve --bootstrap-controller ctl1:9093,ctl2:9093 --data-dir /var/lib/kwire \\
      --command-config client.properties
  kwire serve --config server.properties --check-config""",
)
@click.option(
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A properties file of keys.",
)
@click.option(
    "--check-config",
    is_flag=True,
    help="Check configuration and source, say what is wrong, and exit: 0 or 2.",
)
@_key_options
def command(file: Path | None, check_config: bool, **given: Any) -> None:
    """Serve the partition __cluster_metadata-0 to Kafka clients, and follow it as it grows.

    By default this node runs a KRaft quorum, of one node unless --controller-quorum-voters names
    more; admin clients can change topics and configurations there. With --bootstrap-controller it
    observes another quorum, with --log-dir it follows a log directory of Kafka's, both read only.
    The process exits with 0 after SIGTERM or SIGINT, with 2 for an unusable configuration, and
    with 1 when it cannot follow the quorum without an operator.
    """
    status, problems = 0, []
    try:
        config = load_config(flags=_texts(given), environment=os.environ, file=file)
        if check_config:
            from gateway.app.node import check

            for warning in check(config):
                click.echo(f"kwire serve: warning: {warning}", err=True)
            click.echo("The configuration is good.")
            return
        _run(config)
    except* ConfigError as group:  # a nursery may have wrapped it
        status, problems = 2, _problems(group)
    except* SourceStopped as group:
        status, problems = 1, _problems(group)
    # Not in the handler: before Python 3.11.4 an exception raised in an except* comes out in a
    # group.
    for problem in problems:
        click.echo(f"kwire serve: {problem}", err=True)
    sys.exit(status)


def _problems(group: BaseExceptionGroup[Any]) -> list[str]:
    found: list[str] = []
    for error in group.exceptions:
        found.extend(
            _problems(error)
            if isinstance(error, BaseExceptionGroup)
            else getattr(error, "problems", [str(error)])
        )
    return found


def _texts(given: dict[str, Any]) -> dict[str, str]:
    by_attribute = {key.attribute: key.name for key in KEYS.values()}
    return {by_attribute[name]: str(value) for name, value in given.items() if value is not None}


def _run(config: Config) -> None:
    # The objects of the start stay alive: collecting in between costs a tenth of the start and
    # frees nothing.
    gc.disable()

    import trio

    from gateway.server.logging.logs import configure

    worker = 1 if config.workers > 1 else None
    configure(config.log_level, config.log_format, worker=worker)
    trio.run(_main, config)


async def _main(config: Config) -> None:
    import trio

    from gateway.app.node import serve
    from gateway.server.scheduling.collector import settle_collector

    stop = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_at_signal, signals, stop, nursery.cancel_scope)
            ready = await nursery.start(serve, config, stop)
            settle_collector()
            await ready.loaded()
            if not ready.ended.is_set():
                _say_ready(ready)
            if not stop.is_set():
                _notify(lambda: service_notify.ready(ready.listeners().values()))
            await ready.ended.wait()
            nursery.cancel_scope.cancel()


async def _stop_at_signal(signals: Any, stop: trio.Event, scope: trio.CancelScope) -> None:
    """Drain at the first signal; stop at the second one."""
    async for _ in signals:
        if stop.is_set():
            scope.cancel()
        else:
            _notify(service_notify.stopping)
        stop.set()


def _notify(send: Callable[[], None]) -> None:
    """Tell systemd a state; the server runs on where that fails."""
    try:
        send()
    except OSError as error:
        click.echo(f"kwire serve: systemd's NOTIFY_SOCKET cannot be used: {error}", err=True)


def _say_ready(ready: RunningServer) -> None:
    """Print one line on standard output, once: JSON for programs, a sentence for people."""
    facts = ready.facts()
    if sys.stdout.isatty():
        address = next(iter(facts["listeners"].values()))
        line = (
            f"kwire is ready at {', '.join(facts['listeners'].values())}: topic {facts['topic']},"
            f" offsets {facts['log_start_offset']} to {facts['high_watermark']}, from"
            f" {facts['source']}, in {facts['directory']}\n"
            f"  try: kcat -b {address} -C -t {facts['topic']} -o beginning -e -f '%o %S bytes\\n'"
        )
    else:
        line = json.dumps(facts)
    try:
        print(line, flush=True)
    except (
        OutputFailed
        # the parent process does not read the line, but Kafka clients still need the server
    ) as error:
        if not error.reader_is_gone:
            click.echo(f"kwire serve: {error}; the server runs all the same", err=True)
