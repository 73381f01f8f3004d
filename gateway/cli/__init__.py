"""The ``kwire`` command. A subcommand is a module of this package with a ``command``, imported when it is wanted."""

from __future__ import annotations

import importlib

import click

from gateway.version import installed_version

#: In the order in which ``kwire --help`` shows them.
COMMANDS = ("serve", "format", "tail", "state", "diff", "spark", "quorum", "decode", "dissect", "apis", "generate")


class _Lazy(click.Group):
    """Imports no subcommand but the one that runs: ``kwire serve`` should not wait for what ``kwire tail`` needs."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"gateway.cli.{name}").command
        return command


def _say_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"kwire, version {installed_version()}")
        context.exit()


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="""\b
Shell completion, for bash (zsh and fish alike):
  eval "$(_KWIRE_COMPLETE=bash_source kwire)"

\b
Examples:
  kwire serve                                    a metadata quorum of one, served at 127.0.0.1:9092
  kwire serve --log-dir /var/lib/kafka/metadata  serve and follow the one of your node
  kwire serve --bootstrap-controller ctl1:9093 --data-dir /var/lib/kwire    observe a real quorum, and serve its log
  kcat -b 127.0.0.1:9092 -C -t __cluster_metadata -o beginning -e -f '%o %S bytes\\n'""",
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_say_version, help="Show the version and exit."
)
def main() -> None:
    """Kafka's metadata log, __cluster_metadata, as an ordinary topic, and Kafka's wire protocol taken apart."""
