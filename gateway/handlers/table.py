"""Finds the handler of an API key and version.

The ApiVersions response is built from this table, and a connection finds the handler of every
request in it, so every advertised version is served. A handler is either a module named after its
API (``API_KEY``, ``VERSIONS``, ``handle``, and ``OLD_REQUESTS`` where some versions have classes of
their own) or a :class:`Handler` in a module's ``HANDLERS``, where many handlers share one file. The
table knows modules by name, and no connection.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from kwire.codegen.naming import snake
from kwire.protocol import ApiKey
from kwire.registry import request_type

if TYPE_CHECKING:
    from gateway.handlers.context import Context, PendingResponse
    from gateway.handlers.streamed import Streamed
    from gateway.handlers.work import Work
    from kwire.message import Message


@dataclass(frozen=True, slots=True)
class Handler:
    """One API of this server. ``versions`` are those that it advertises.

    ``handle(request, context)`` returns the response, a pending one, a streamed one, work in slices
    that ends with one of them, or None. None means that a request without a response failed
    (Produce with acks=0): the server closes the connection, as it has no other way to report the
    error.
    """

    api_key: int
    name: str
    versions: range
    handle: Callable[[Any, Context], Message | PendingResponse | Streamed | Work | None]
    #: The request classes of versions that Kafka has removed. A version that is not in ``versions``
    #: is served and not advertised.
    old_requests: Mapping[int, type[Message]] = field(default_factory=dict)
    #: Whether only brokers and controllers send it. It needs CLUSTER_ACTION, and may have as many
    #: elements as its bytes allow (``gateway.handlers.element_budget``).
    for_nodes: bool = False
    #: Elements of a request at most, if that is fewer than ``request.max.elements``.
    elements_max: int | None = None

    def serves(self, version: int) -> bool:
        """Whether this server serves ``version``."""
        return version in self.versions or version in self.old_requests

    def request_type(self, version: int) -> type[Message]:
        """Return the class that decodes a request of ``version``."""
        return self.old_requests.get(version) or request_type(self.api_key)

    def api(self, version: int) -> str:
        """Return the name of the API at ``version``, in snake case. Some APIs were renamed."""
        old = self.old_requests.get(version)
        return self.name if old is None else snake(old.NAME.removesuffix("Request"))


#: Modules with one handler each.
MODULES: Final = (
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_fetch",
    "find_coordinator",
    "join_group",
    "heartbeat",
    "leave_group",
    "sync_group",
    "describe_groups",
    "list_groups",
    "api_versions",
    "offset_for_leader_epoch",
    "describe_configs",
    "describe_log_dirs",
    "delete_groups",
    "offset_delete",
    "describe_quorum",
    "describe_cluster",
    "list_config_resources",
    "describe_topic_partitions",
    "sasl_handshake",
    "sasl_authenticate",
    "describe_acls",
    "describe_client_quotas",
    "describe_user_scram_credentials",
    "describe_delegation_token",
)
#: Modules with several handlers: admin requests, and requests that this server always refuses or
#: that have nothing to return.
COLLECTIONS: Final = ("controller_requests", "refused_topics", "refused_security", "transactions")

#: The APIs that controllers serve like brokers: ApiVersions and the admin APIs (KIP-919), and
#: ListConfigResources, which a controller of Kafka does not serve.
_ON_BOTH: Final = (
    *(key for key in ApiKey if key.listeners == {"broker", "controller"}),
    ApiKey.LIST_CONFIG_RESOURCES,
)


@functools.cache
def handlers() -> Mapping[int, Handler]:
    """Return every handler by API key, ascending. Raises ValueError if two have one key."""
    found: dict[int, Handler] = {}
    for handler in [_of_module(name) for name in MODULES] + [
        h for name in COLLECTIONS for h in _import(name).HANDLERS
    ]:
        if handler.api_key in found:
            raise ValueError(
                f"api key {handler.api_key}: both {found[handler.api_key].name} and {handler.name}"
            )
        found[handler.api_key] = handler
    return MappingProxyType(dict(sorted(found.items())))


@functools.cache
def controller_handlers() -> Mapping[int, Handler]:
    """Return the handlers of the controller listeners of a quorum's node, by API key
    (``ControllerApis``).
    """
    of_all = handlers()
    nodes_only = [_of_module("envelope"), *_import("controller_requests").handlers_for_nodes()]
    of_nodes = [replace(handler, for_nodes=True) for handler in nodes_only]
    own = [*_import("raft").HANDLERS, *of_nodes]
    taken = {handler.api_key for handler in own}  # Fetch, for one, is that of replicas
    found = [*own, *(of_all[key] for key in _ON_BOTH if key in of_all and key not in taken)]
    return MappingProxyType(
        {handler.api_key: handler for handler in sorted(found, key=lambda one: one.api_key)}
    )


def _of_module(name: str) -> Handler:
    module = _import(name)
    return Handler(
        module.API_KEY, name, module.VERSIONS, module.handle, getattr(module, "OLD_REQUESTS", {})
    )


def _import(name: str) -> ModuleType:
    return importlib.import_module(f"gateway.handlers.{name}")
