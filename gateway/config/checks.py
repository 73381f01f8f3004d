"""Checks a configuration as a whole: ranges, listeners that collide, keys that contradict.

``values`` has parsed the texts before; ``loading`` calls this module with the complete ``Config``.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from typing import TYPE_CHECKING

from gateway.config.values import (
    LISTENER_MAX_CONNECTIONS,
    SOURCE_NAMES,
    ConfigError,
    SourceKind,
)

if TYPE_CHECKING:
    from gateway.config.config import Config


def check(config: Config) -> Config:
    """Return ``config``. Raises ConfigError with its problems, a sentence each that names the
    key.
    """
    problems = [
        *_out_of_range(config),
        *_listener_problems(config),
        *_connection_problems(config),
        *_contradictions(config),
    ]
    if problems:
        raise ConfigError(*problems)
    return config


def _out_of_range(config: Config) -> list[str]:
    problems = []
    for key in dataclasses.fields(config):
        value, about = getattr(config, key.name), key.metadata
        if not about:
            continue
        name = key.name.replace("_", ".")
        if type(value) is int and not about["at_least"] <= value <= about["at_most"]:
            unit = f" {about['unit']}" if about["unit"] else ""
            problems.append(
                f"{name}: {value} is outside {about['at_least']} to {about['at_most']}{unit}"
            )
        if "choices" in about and value not in about["choices"]:
            problems.append(f"{name}: {value!r} is none of {', '.join(about['choices'])}")
    return problems


def _listener_problems(config: Config) -> list[str]:
    if not config.listeners:
        return ["listeners: at least one is needed"]
    problems = []
    names = [listener.name for listener in config.listeners]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(f"listeners: the name {name} is there more than once")
    for name in names:
        if name not in config.listener_security_protocol_map:
            problems.append(
                f"listener.security.protocol.map: no security protocol for the listener {name}"
            )
    ports = [(listener.host, listener.port) for listener in config.listeners if listener.port]
    for host, port in sorted({place for place in ports if ports.count(place) > 1}):
        problems.append(f"listeners: two listeners at {host}:{port}")
    advertised = {listener.name: listener for listener in config.advertised_listeners}
    for name in advertised.keys() - set(names):
        problems.append(f"advertised.listeners: there is no listener {name}")
    for listener in config.listeners:
        shown = advertised.get(listener.name, listener)
        if shown.host in ("", "0.0.0.0", "::"):
            key = "advertised.listeners" if listener.name in advertised else "listeners"
            problems.append(
                f"{key}: clients cannot connect to {shown}: give a host that they can reach in "
                "advertised.listeners"
            )
    return problems


def _connection_problems(config: Config) -> list[str]:
    problems = []
    for name, text in config.security.items():
        is_limit = name.startswith("listener.name.") and name.endswith(
            f".{LISTENER_MAX_CONNECTIONS}"
        )
        if is_limit and not re.fullmatch("[1-9][0-9]{0,8}", text):
            problems.append(f"{name}: {text!r} is not a whole number from 1 on")
    return problems


def _contradictions(config: Config) -> list[str]:
    problems = _source_problems(config)
    if config.first_request_max_bytes > config.socket_request_max_bytes:
        problems.append("first.request.max.bytes: larger than socket.request.max.bytes")
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        problems.append("group.min.session.timeout.ms: larger than group.max.session.timeout.ms")
    if config.workers > 1 and sys.platform != "linux":
        problems.append("workers: more than one needs Linux, which shares the port among them")
    return problems


def _source_problems(config: Config) -> list[str]:
    problems = []
    kind = config.source_kind
    problems += _log_dirs_problems(config)
    if kind is SourceKind.OBSERVER:
        problems += _observer_problems(config)
    if not kind.has_quorum:
        given = {
            "controller.quorum.bootstrap.servers": bool(config.controller_quorum_bootstrap_servers),
            "data.dir": config.data_dir is not None,
            "command.config": config.command_config is not None,
        }
        problems += [
            f"{key}: means nothing with {_shown(config)}"
            for key, is_given in given.items()
            if is_given
        ]
    names_voters = kind is SourceKind.CONTROLLER or config.is_broker_alone
    if config.controller_quorum_voters and not names_voters:
        problems.append(f"controller.quorum.voters: means nothing with {_shown(config)}")
    if config.controller_quorum_retry_backoff_ms > config.controller_quorum_retry_backoff_max_ms:
        problems.append(
            "controller.quorum.retry.backoff.ms: larger than controller.quorum.retry.backoff.max.ms"
        )
    if kind is SourceKind.CONTROLLER:
        problems += _controller_problems(config)
    return problems + _role_problems(config)


def _log_dirs_problems(config: Config) -> list[str]:
    if config.source_kind is SourceKind.LOG:
        if not config.log_dirs:
            return ["log.dirs: source=log needs the directory to serve (--log-dir DIR)"]
        if len(config.log_dirs) > 1:
            return [
                "log.dirs: is a list; the metadata log is in one directory: metadata.log.dir, else "
                "the first of log.dirs"
            ]
        return []
    if config.process_roles == "auto" and config.log_dirs:
        return [
            f"log.dirs: means nothing with {_shown(config)} and without process.roles"
            + ("; its log is in data.dir" if config.source_kind is SourceKind.CONTROLLER else "")
        ]
    paths = [os.path.normpath(one.absolute()) for one in config.log_dirs]
    return [
        f"log.dirs: names {path} more than once"
        for path in sorted(set(paths))
        if paths.count(path) > 1
    ]


def _role_problems(config: Config) -> list[str]:
    if config.process_roles == "auto":
        return []
    wanted = SourceKind.OBSERVER if config.is_broker_alone else SourceKind.CONTROLLER
    if config.source_kind is not wanted:
        return [f"process.roles: {config.process_roles} means nothing with {_shown(config)}"]
    problems = []
    if config.is_broker and config.workers > 1:
        problems.append("workers: a broker has one process")
    if config.is_broker_alone:
        problems += _broker_problems(config)
    return problems


def _broker_problems(config: Config) -> list[str]:
    problems = [
        f"listeners: {one.name} is a listener of controllers (controller.listener.names), and "
        "this node is a broker alone"
        for one in config.controller_listeners
    ]
    if config.node_id in config.controller_quorum_voters:
        problems.append(
            f"node.id: {config.node_id} is that of a controller in controller.quorum.voters, and "
            "this node is a broker alone"
        )
    if config.replica_id not in (-1, config.node_id):
        problems.append("replica.id: the quorum lists a broker by its node.id")
    return problems


def _shown(config: Config) -> str:
    """The source as the user wrote it; what 'auto' selected by its newer name."""
    if config.source != "auto":
        return f"source={config.source}"
    return "source=" + next(
        name for name, kind in SOURCE_NAMES.items() if kind is config.source_kind
    )


def _observer_problems(config: Config) -> list[str]:
    problems = _client_listener_problems(config)
    if not config.controller_addresses:
        problems.append(
            f"controller.quorum.bootstrap.servers: {_shown(config)} needs a controller "
            "(--bootstrap-controller HOST:PORT)"
        )
    if config.metadata_log_dir is None:
        problems.append(
            f"data.dir: {_shown(config)} needs a directory for its copy of the log (--data-dir DIR)"
        )
    return problems


def _client_listener_problems(config: Config) -> list[str]:
    if len(config.controller_listeners) < len(config.listeners):
        return []
    return [
        "listeners: there is none for clients, only for controllers (controller.listener.names)"
    ]


def _broker_listener_problems(config: Config) -> list[str]:
    name = config.inter_broker_listener_name
    names = [one.name for one in config.listeners]
    if name is None or (name in names and name not in config.controller_listener_names):
        return []
    return [
        f"inter.broker.listener.name: {name} is no listener for clients: name one of listeners "
        f"({', '.join(names)}) that is not in controller.listener.names"
    ]


def _controller_problems(config: Config) -> list[str]:
    problems = [*_client_listener_problems(config), *_broker_listener_problems(config)]
    if (
        config.node_id in config.controller_quorum_voters
        and len(config.controller_quorum_voters) > 1
    ):
        port = config.controller_quorum_voters[config.node_id].port
        if all(
            listener.port not in (0, port)
            for listener in (*config.controller_listeners, *config.advertised_listeners)
        ):
            problems.append(
                f"controller.quorum.voters: the others look for node {config.node_id} at port "
                f"{port}, and no listener of controller.listener.names "
                f"({', '.join(config.controller_listener_names)}) is there"
            )
    return problems
