"""Which handler answers which api key at which versions. Knows the handlers by name, and nothing of connections.

ApiVersions is made from this table and a connection looks here for every request, so what is advertised is
served. A handler is either a module named after its API (``API_KEY``, ``VERSIONS``, ``handle``, and ``OLD_REQUESTS`` where
some versions have classes of their own) or, where many small answers share one file, a :class:`Handler` in that module's
``HANDLERS``.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from kwire.codegen.naming import snake
from kwire.registry import request_type

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message


@dataclass(frozen=True, slots=True)
class Handler:
    """One API as this server has it: ``versions`` are those that it advertises.

    ``handle(request, context)`` gives the answer, or one that comes later, or None: the request wanted no answer and
    failed (Produce with acks=0), and the connection is to be closed, the only way left to tell the client.
    """

    api_key: int
    name: str
    versions: range
    handle: Callable[[Any, Context], Message | Later | None]
    #: The request classes of versions that newer Kafka dropped. One that is not in ``versions`` is served and not advertised.
    old_requests: Mapping[int, type[Message]] = field(default_factory=dict)

    def serves(self, version: int) -> bool:
        """Is a request of ``version`` answered?"""
        return version in self.versions or version in self.old_requests

    def request_type(self, version: int) -> type[Message]:
        """The class that reads a request of ``version``."""
        return self.old_requests.get(version) or request_type(self.api_key)

    def api(self, version: int) -> str:
        """What the API is called at ``version``, as modules are: names have changed."""
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
    "create_topics",
    "delete_topics",
    "create_partitions",
    "alter_configs",
    "incremental_alter_configs",
    "unregister_broker",
    "update_features",
    "elect_leaders",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "sasl_handshake",
    "sasl_authenticate",
    "describe_acls",
    "create_acls",
    "delete_acls",
    "describe_client_quotas",
    "alter_client_quotas",
    "describe_user_scram_credentials",
    "alter_user_scram_credentials",
    "create_delegation_token",
    "renew_delegation_token",
    "expire_delegation_token",
    "describe_delegation_token",
)
#: The same, for controller listeners only.
CONTROLLER_MODULES: Final = (
    "broker_registration",
    "broker_heartbeat",
    "allocate_producer_ids",
    "alter_partition",
    "assign_replicas_to_dirs",
    "controller_registration",
    "envelope",
)
#: Modules with a tuple of them: what this server refuses to change.
COLLECTIONS: Final = ("refused_topics", "refused_security")

#: What controllers answer as brokers do: ApiVersions, the admin APIs that change or describe metadata (KIP-919).
_ON_BOTH: Final = (17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 41, 43, 44, 45, 46, 49, 50, 51, 55, 57, 60, 64, 74)


@functools.cache
def handlers() -> Mapping[int, Handler]:
    """Every handler by api key, in the order of the keys. Raises ValueError if two claim one key."""
    found: dict[int, Handler] = {}
    for handler in [_of_module(name) for name in MODULES] + [h for name in COLLECTIONS for h in _import(name).HANDLERS]:
        if handler.api_key in found:
            raise ValueError(f"api key {handler.api_key}: both {found[handler.api_key].name} and {handler.name}")
        found[handler.api_key] = handler
    return MappingProxyType(dict(sorted(found.items())))


@functools.cache
def controller_handlers() -> Mapping[int, Handler]:
    """What a node of our own quorum serves on its controller listeners, by api key (``ControllerApis``)."""
    of_all = handlers()
    own = [*_import("raft").HANDLERS, *map(_of_module, CONTROLLER_MODULES)]
    found = [*own, *(of_all[key] for key in _ON_BOTH if key in of_all)]
    return MappingProxyType({handler.api_key: handler for handler in sorted(found, key=lambda one: one.api_key)})


def _of_module(name: str) -> Handler:
    module = _import(name)
    return Handler(module.API_KEY, name, module.VERSIONS, module.handle, getattr(module, "OLD_REQUESTS", {}))


def _import(name: str) -> ModuleType:
    return importlib.import_module(f"gateway.handlers.{name}")
