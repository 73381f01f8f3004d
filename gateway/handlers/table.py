"""Finds the handler of an API key and version.

The ApiVersions response is built from this table, and a connection finds the handler of every
request in it, so every advertised version is served. A handler is either a module named after its
API (``API_KEY``, ``VERSIONS``, ``handle``, and ``OLD_REQUESTS`` where some versions have classes of
their own) or a ``Handler`` in a module's ``HANDLERS``, where many handlers share one file. The
table knows modules by name, and no connection.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType, ModuleType
from typing import Final

from gateway.handlers.context import Handler
from kwire.protocol import ApiKey

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
    "consumer_group_heartbeat",
    "consumer_group_describe",
    "api_versions",
    "offset_for_leader_epoch",
    "describe_configs",
    "alter_replica_log_dirs",
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
    "init_producer_id",
    "delete_records",
    "write_txn_markers",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "end_txn",
    "txn_offset_commit",
    "describe_transactions",
    "list_transactions",
)
#: Modules with several handlers: admin requests, and requests that this server always refuses or
#: that have nothing to return.
COLLECTIONS: Final = (
    "controller_requests",
    "voter_changes",
    "transactions",
    "absent_groups",
)

#: The APIs that controllers serve like brokers: ApiVersions and the admin APIs (KIP-919), and
#: ListConfigResources, which a controller of Kafka does not serve.
_ON_BOTH: Final = (
    *(key for key in ApiKey if key.listeners == {"broker", "controller"}),
    ApiKey.LIST_CONFIG_RESOURCES,
)
#: The APIs of a relay: those of replicas, and those that an observer sends beside them.
_OF_REPLICAS: Final = (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT)
_OF_OBSERVERS: Final = (
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.DESCRIBE_CLUSTER,
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


@functools.cache
def relay_handlers() -> Mapping[int, Handler]:
    """Return the handlers of the controller listeners of an observer, by API key: what observers
    behind it send, and nothing of voters and of admin clients.
    """
    of_all = handlers()
    replicas = [one for one in _import("raft").HANDLERS if one.api_key in _OF_REPLICAS]
    found = [*replicas, *(of_all[key] for key in _OF_OBSERVERS)]
    return MappingProxyType(
        {handler.api_key: handler for handler in sorted(found, key=lambda one: one.api_key)}
    )


def _of_module(name: str) -> Handler:
    module = _import(name)
    return Handler(
        module.API_KEY,
        name,
        module.VERSIONS,
        module.handle,
        getattr(module, "OLD_REQUESTS", {}),
        memory_of=getattr(module, "memory_of", None),
    )


def _import(name: str) -> ModuleType:
    return importlib.import_module(f"gateway.handlers.apis.{name}")
