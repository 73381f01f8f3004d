"""Prints the options of ``kwire serve --help`` in groups. It does not read them."""

from __future__ import annotations

from typing import Final

import click

#: Title of each group, and the beginnings of its keys. The first group that has one counts.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Node and source": ("node.id", "source", "process.roles", "cluster.id", "data.dir", "log.dirs",
        "state.dir"),
    "Client listeners": ("listener", "advertised.listeners", "workers", "socket.listen", "socket.s",
        "socket.receive"),
    "Security": ("authorizer.", "super.users", "allow.everyone", "connection.failed", "sasl.",
        "delegation.", "command.config"),
    "Metadata quorum": ("controller.listener", "controller.quorum",
        "metadata.max.idle", "replica.id", "quorum.history"),
    "Broker": ("auto.create", "num.partitions", "default.replication", "initial.broker",
        "transaction", "broker.rack", "replica.selector",
        "inter.broker", "replica.fetch", "replica.socket", "replica.lag"),
    "Controller": ("broker.", "auto.leader", "leader.imbalance", "unclean.", "metadata.audit."),
    "Log and snapshots": ("metadata.log.", "metadata.max.", "snapshot.", "log.retention."),
    "View topics": ("metadata.views.",),
    "Consumer groups": ("group.", "groups.", "offset.", "offsets."),
    "Limits of clients": ("max.connections", "first.", "connections.max", "socket.request",
        "request.", "read.ahead", "queued.", "output.", "response.", "buffers.", "fetch.",
        "max.incremental", "quota.window", "controller.quota.window"),
    "Management and logs": ("management.", "log.", "drain."),
}  # fmt: skip


def group_of(name: str) -> str | None:
    """Return the title of the group of a key; None if it has none."""
    return next((title for title, starts in GROUPS.items() if name.startswith(starts)), None)


class GroupedOptions(click.Command):
    """Writes the options that are no keys first, then the keys by their groups."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *GROUPS)}
        for parameter in self.get_params(context):
            row = parameter.get_help_record(context)
            if row is not None:
                name = parameter.opts[0].removeprefix("--").replace("-", ".")
                rows[group_of(name) or "Options"].append(row)
        for title, listed in rows.items():
            with formatter.section(title):
                formatter.write_dl(listed)
