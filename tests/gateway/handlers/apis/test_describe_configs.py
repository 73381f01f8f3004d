"""DescribeConfigs of the metadata log and this node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.config.config import Config, Listener
from gateway.config.keys import KEYS
from gateway.controller.configs.config_def import ConfigSource, ConfigType
from gateway.handlers.apis import describe_configs
from kwire.cluster.image import BROKER_RESOURCE
from kwire.protocol import ConfigResourceType, ErrorCode
from tests.gateway.handlers.apis.test_produce_data import BrokerWorld
from tests.gateway.handlers.world import NODE, World

TOPIC = {
    "resource_type": ConfigResourceType.TOPIC,
    "resource_name": "__cluster_metadata",
    "configuration_keys": None,
}
BROKER = {
    "resource_type": ConfigResourceType.BROKER,
    "resource_name": str(NODE),
    "configuration_keys": None,
}


def ask(world: World, version: int, resource: dict[str, Any], **fields: Any) -> Any:
    (result,) = world.ask(describe_configs, version, resources=[resource], **fields).results
    assert (result.resource_type, result.resource_name) == (
        resource["resource_type"],
        resource["resource_name"],
    )
    return result


@pytest.mark.parametrize("version", describe_configs.VERSIONS)
def test_metadata_topic_has_kafkas_keys(version: int) -> None:
    result = ask(World(), version, TOPIC, include_synonyms=True)
    configs = {config.name: config for config in result.configs}
    assert result.error_code == 0
    assert configs["cleanup.policy"].value == "delete"
    assert (configs["retention.ms"].value, configs["retention.bytes"].value) == ("-1", "-1")
    assert configs["max.message.bytes"].value == str(8 << 20)
    assert configs["cleanup.policy"].config_type == (ConfigType.LIST if version >= 3 else 0)
    for config in configs.values():
        assert config.read_only and not config.is_sensitive
        assert config.config_source == ConfigSource.DEFAULT_CONFIG
        assert [(s.name, s.value, s.source) for s in config.synonyms] == [
            (config.name, config.value, 5)
        ]


@pytest.mark.parametrize("version", describe_configs.VERSIONS)
def test_node_returns_its_settings(version: int) -> None:
    listeners = (Listener("PLAINTEXT", "127.0.0.1", 9092), Listener("OTHER", "::1", 9093))
    protocols = {"PLAINTEXT": "PLAINTEXT", "OTHER": "PLAINTEXT"}
    config = Config(
        node_id=NODE,
        log_dirs=(Path("/logs"),),
        listeners=listeners,
        listener_security_protocol_map=protocols,
    )
    result = ask(World(config=config), version, BROKER, include_synonyms=True)
    found = {one.name: one for one in result.configs}
    assert found.keys() == KEYS.keys()
    assert found["node.id"].value == str(NODE)
    assert found["log.dirs"].value == "/logs"
    assert found["listeners"].value == "PLAINTEXT://127.0.0.1:9092,OTHER://[::1]:9093"
    assert found["listener.security.protocol.map"].value == "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
    assert found["snapshot.prefix"].value == "true"
    assert found["state.dir"].value is None
    assert found["node.id"].config_source == ConfigSource.STATIC_BROKER_CONFIG
    assert [(s.value, s.source) for s in found["node.id"].synonyms] == [(str(NODE), 4), ("1", 5)]
    assert found["max.connections"].config_source == ConfigSource.DEFAULT_CONFIG
    if version >= 3:
        types = [
            found[name].config_type
            for name in ("node.id", "snapshot.prefix", "listeners", "log.level")
        ]
        assert types == [ConfigType.INT, ConfigType.BOOLEAN, ConfigType.LIST, ConfigType.STRING]


def test_broker_has_the_defaults_of_the_dynamic_configs_that_it_applies() -> None:
    world = BrokerWorld()
    world.quorum_image.configs[BROKER_RESOURCE, ""] = {"log.retention.ms": "60000"}
    world.quorum_image.configs[BROKER_RESOURCE, str(NODE)] = {"num.io.threads": "4"}
    result = ask(world, 4, BROKER, include_synonyms=True)
    found = {
        one.name: (one.value, one.config_source, [(s.value, s.source) for s in one.synonyms])
        for one in result.configs
    }
    default = ConfigSource.DEFAULT_CONFIG
    assert found["log.cleaner.backoff.ms"] == ("15000", default, [("15000", default)])
    shared = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert found["log.retention.ms"] == ("60000", shared, [("60000", shared)])
    assert found["log.roll.ms"] == (None, default, [])
    assert found["num.io.threads"][:2] == ("4", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert not found.keys() & {"num.network.threads", "ssl.provider"}  # nothing applies them
    assert not any(one.read_only for one in result.configs if one.name == "log.roll.ms")


@pytest.mark.parametrize("keys", [["retention.ms", "no.such.key"], ["retention.ms"]])
def test_only_requested_keys_are_returned(keys: list[str]) -> None:
    result = ask(World(), 4, TOPIC | {"configuration_keys": keys})
    assert [config.name for config in result.configs] == ["retention.ms"]


def test_empty_key_list_requests_all_keys() -> None:
    assert len(ask(World(), 1, TOPIC | {"configuration_keys": []}).configs) > 30


def test_synonyms_and_documentation_only_when_asked() -> None:
    plain = ask(World(), 4, BROKER)
    assert all(config.synonyms == [] and config.documentation is None for config in plain.configs)
    told = {
        config.name: config
        for config in ask(World(), 4, BROKER, include_documentation=True).configs
    }
    assert told["fetch.max.bytes"].documentation.endswith("(bytes)")


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (ConfigResourceType.TOPIC, "orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigResourceType.TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ConfigResourceType.BROKER, "8", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.BROKER, "x", ErrorCode.INVALID_REQUEST),
        (8, str(NODE), ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
        (-1, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_unknown_resource_is_refused(kind: int, name: str, error: ErrorCode) -> None:
    result = ask(
        World(), 4, {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    )
    assert (result.error_code, result.configs) == (error, [])
    assert result.error_message


def test_default_broker_resource_has_no_dynamic_configs() -> None:
    result = ask(World(), 4, {"resource_type": 4, "resource_name": "", "configuration_keys": None})
    assert (result.error_code, result.configs) == (0, [])


@pytest.mark.parametrize(
    ("resource", "kind", "error"),
    [
        (TOPIC, "TOPIC", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (BROKER, "CLUSTER", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_describe_without_permission_is_refused(
    resource: dict[str, Any], kind: str, error: ErrorCode
) -> None:
    world = World()
    world.authorizer.forbidden = {("DESCRIBE_CONFIGS", kind, "*")}
    result = ask(world, 4, resource)
    assert (result.error_code, result.configs) == (error, [])


def test_repeated_resource_is_described_once() -> None:
    answer = World().ask(
        describe_configs, 4, resources=[BROKER, TOPIC] * 1000, include_documentation=True
    )
    assert [result.resource_type for result in answer.results] == [
        ConfigResourceType.BROKER,
        ConfigResourceType.TOPIC,
    ]
