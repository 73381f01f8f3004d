"""Runs the ``kwire`` command. A subcommand is a module of this package with a ``command``, imported
on use.

Failures that any subcommand can meet are reported here, each with one sentence on standard error
and an exit status.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from gateway.base.address import shown
from gateway.base.version import installed_version
from gateway.cli.streams import OutputFailed, prepare_streams
from kwire.printable import printable

#: Exit statuses of every subcommand. 74 is EX_IOERR of sysexits.h; 130 and 141 are what a shell
#: shows for SIGINT and SIGPIPE.
IO_FAILED: Final = os.EX_IOERR
INTERRUPTED: Final = 130
READER_GONE: Final = 141

#: In the order in which ``kwire --help`` shows them.
COMMANDS = (
    "serve",
    "format",
    "tail",
    "views",
    "state",
    "diff",
    "report",
    "spark",
    "quorum",
    "rescue",
    "decode",
    "dissect",
    "apis",
    "conform",
    "generate",
    "docs",
)


class _Lazy(click.Group):
    """Imports only the subcommand that runs: ``kwire serve`` should not load the modules of ``kwire
    tail``.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"gateway.cli.{name}").command
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = difflib.get_close_matches(args[0], COMMANDS, 1)
        if args[0] not in COMMANDS and near and not args[0].startswith("-"):
            context.fail(f"No such command {shown(args[0])}. Did you mean {near[0]}?")
        return super().resolve_command(context, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **more: Any,
    ) -> Any:
        """Run as a process does, and exit; without ``standalone_mode`` raise and return as click
        does.
        """
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **more)
        prepare_streams()
        sys.exit(self._run(args, prog_name, complete_var, **more))

    def _run(
        self,
        args: Sequence[str] | None,
        prog_name: str | None,
        complete_var: str | None,
        **more: Any,
    ) -> int:
        """Return the exit status. An exception that is a bug of the program keeps its traceback."""
        try:
            status = super().main(args, prog_name, complete_var, standalone_mode=False, **more)
            sys.stdout.flush()
        except click.ClickException as error:
            # It may quote a server, or a name that a client chose.
            sentences = map(printable, error.message.split("\n"))
            error.message = "\n".join(sentences)  # type: ignore[misc]
            error.show()
            return error.exit_code
        except click.Abort:  # click's word for KeyboardInterrupt
            return INTERRUPTED
        except OutputFailed as error:
            return (
                READER_GONE
                if error.reader_is_gone
                else _report(f"{error}; nothing more was printed")
            )
        except OSError as error:
            where = (
                error.filename
                if error.filename2 is None
                else f"{error.filename} to {error.filename2}"
            )
            return _report(
                f"{where}: {error.strerror}" if where is not None else str(error.strerror or error)
            )
        return status if isinstance(status, int) else 0


def _report(sentence: str) -> int:
    click.echo(f"Error: {sentence}", err=True)
    return IO_FAILED


def _say_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"kwire, version {installed_version()}")
        context.exit()


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="""\b
Exit status: 0 done; 1 failed (diff: the states differ); 2 wrong usage (diff: failed too);
74 the output could not be written; 130 interrupted; 141 the reader of the output closed it.
The reason is on standard error.

\b
Shell completion, for bash (zsh and fish alike):
  eval "$(_KWIRE_COMPLETE=bash_source kwire)"

\b
Examples:
  kwire serve                                    a metadata quorum of one, served at 127.0.0.1:9092
  kwire serve --log-dir /var/lib/kafka/metadata  follow the log directory of a Kafka node
  kwire serve --bootstrap-controller ctl1:9093 --data-dir /var/lib/kwire
                                                 observe a running quorum and serve its log
  kcat -b 127.0.0.1:9092 -C -t __cluster_metadata -o beginning -e -f '%o %S bytes\\n'""",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_say_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Serve Kafka's metadata log, __cluster_metadata, as an ordinary topic; read logs, snapshots
    and Kafka's wire protocol.
    """
