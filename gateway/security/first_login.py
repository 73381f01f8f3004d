"""Checks that a super user can log in, so that no configuration locks all users out of a cluster.

With an authorizer only super users may do anything until there are ACLs. It does not log in: it
compares ``super.users`` with the users that each listener knows. Kafka has no such check.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from gateway.security.sasl_client import PLAIN
from gateway.security.ssl_principal import ANONYMOUS
from gateway.security.standard_authorizer import parse_super_users

if TYPE_CHECKING:
    from gateway.config.config import Config
    from gateway.security.listeners import ListenerSecurity

_USER: Final = "User:"


def lockout(
    config: Config,
    listeners: Mapping[str, ListenerSecurity],
    credentials: Collection[tuple[str, str]],
    own: str,
) -> str | None:
    """Return why no super user can log in, and what to do; None where one can.

    ``credentials``: (mechanism, user) of SCRAM. ``own``: the principal of this node, which does not
    count at the listeners of controllers, because an operator does not have its password.
    """
    if config.authorizer_class_name is None or config.allow_everyone_if_no_acl_found:
        return None
    users = parse_super_users(config.super_users)
    for name, listener in listeners.items():
        wanted = users - {own} if name in config.controller_listener_names else users
        if _can_log_in(listener, wanted, credentials):
            return None
    if not users:
        return "super.users: empty, so no client may do anything: name a user that can log in"
    clients = {
        name: ",".join(one.mechanisms or (one.protocol,))
        for name, one in listeners.items()
        if name not in config.controller_listener_names
    }
    return (
        f"super.users: no super user can log in: {', '.join(sorted(users))} have no password,"
        " certificate or SCRAM credential for"
        f" {', '.join(f'{name} ({ways})' for name, ways in clients.items())}: {_remedy(clients)}"
    )


def _can_log_in(
    listener: ListenerSecurity, users: Collection[str], credentials: Collection[tuple[str, str]]
) -> bool:
    if listener.mechanisms is not None:
        names = {user for mechanism, user in credentials if mechanism in listener.mechanisms}
        if PLAIN in listener.mechanisms:
            names |= listener.passwords.keys()
        return any(f"{_USER}{name}" in users for name in names)
    # Which certificates a client has is not known here.
    if listener.client_auth != "none" and users:
        return True
    return listener.client_auth != "required" and ANONYMOUS in users


def _remedy(clients: Mapping[str, str]) -> str:
    scram = next(
        (one for ways in clients.values() for one in ways.split(",") if "SCRAM" in one), ""
    )
    if scram:
        return (
            f"format the node with kwire format --add-scram '{scram}=[name=NAME,password=...]',"
            " NAME being a super user"
        )
    return "add a user that can"
