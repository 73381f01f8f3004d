"""Decides how a node of its own quorum connects to the others, and whether a new cluster would let
a super user in.

It reads the configuration and the formatted directory, and opens no connection. ``controller_node``
runs the node.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.config.config import ConfigError
from gateway.log.files.errors import LogError
from gateway.log.metadata.formatting import first_credentials, has_first_voters
from gateway.log.partition.data_directory import read_meta
from gateway.security.first_login import lockout
from gateway.security.listeners import (
    check_own_principal,
    node_security,
    own_principal,
    read_listeners,
    upstream_security,
)
from gateway.security.sasl_client import PLAIN
from kwire.protocol import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.config.config import Config
    from gateway.security.client_properties import ClientSecurity


def security_among_nodes(config: Config) -> ClientSecurity:
    """Security of connections to the other nodes: that of ``command.config``, else that of the
    controller listener, which all nodes configure alike. Raises ConfigError.
    """
    security = (
        upstream_security(config) if config.command_config is not None else node_security(config)
    )
    check_own_principal(config, security)
    return security


def check_security(config: Config) -> tuple[ClientSecurity, list[str]]:
    """Return :func:`security_among_nodes`, and warnings. Raises ConfigError, also if a new cluster
    would let no super user in.
    """
    security, where = security_among_nodes(config), data_dir(config)
    try:
        first = first_credentials(where)
        is_new = first is not None or (read_meta(where) is None and formats_itself(config))
        is_dynamic = not config.controller_quorum_voters
        joins = is_dynamic and not (formats_itself(config) or has_first_voters(where))
    except LogError as error:
        raise ConfigError(f"data.dir: {error}") from None
    if not is_new or joins:  # the log of the quorum has the users
        return security, []
    users = ((one.mechanism, one.name) for one in first or ())
    found = (_scram_among_nodes(config, security), lockout_of(config, security, users))
    problems = [problem for problem in found if problem is not None]
    # Other static voters may have a log with users already.
    if problems and len(config.controller_quorum_voters) <= 1:
        raise ConfigError(*problems)
    return security, problems


def _scram_among_nodes(config: Config, security: ClientSecurity) -> str | None:
    """Return why the first nodes of a quorum cannot log in to each other; None where they can."""
    nodes = config.controller_quorum_voters or config.controller_quorum_bootstrap_servers
    if security.sasl is None or security.sasl.mechanism == PLAIN or len(nodes) < 2:
        return None
    return (
        f"sasl.mechanism.controller.protocol: {security.sasl.mechanism}: the first nodes of a"
        " quorum cannot log in to each other by it, because its users are in the log on which the"
        " nodes have to agree first: use PLAIN over TLS, or certificates"
    )


def lockout_of(
    config: Config, security: ClientSecurity, credentials: Iterable[tuple[int, str]]
) -> str | None:
    """Return why no super user can log in with SCRAM ``credentials``, (number of the mechanism,
    user) each; None where one can.
    """
    named = {(SCRAM_MECHANISMS.get(number, ""), user) for number, user in credentials}
    return lockout(config, read_listeners(config), named, own_principal(config, security))


def data_dir(config: Config) -> Path:
    """The directory of the metadata log; where the configuration names none, one for ``node.id`` in
    the user's data directory.
    """
    if config.metadata_log_dir is not None:
        return config.metadata_log_dir
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "kwire" / f"node-{config.node_id}"


def formats_itself(config: Config) -> bool:
    """Whether ``kwire serve`` formats the empty directory of this node."""
    voters = config.controller_quorum_voters
    if voters:
        return config.cluster_id is not None or list(voters) == [config.node_id]
    return not config.controller_quorum_bootstrap_servers
