"""Rules of DescribeConfigs and IncrementalAlterConfigs for topics (KIP-133, KIP-226, KIP-339)."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.fixtures import create_topic
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NAME
from kwire.conformance.rule import SINCE_EVER, Changes, Family
from kwire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol import ApiKey, ConfigResourceType, ConfigSource, ErrorCode

_TOPIC: Final = ConfigResourceType.TOPIC
_SET, _DELETE, _APPEND = 0, 1, 2

FAMILY: Final = Family(
    "configs",
    "Configs of topics",
    apis=(
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
    ),
    changes=Changes.OWN,
    since="2.3",
)


def _describe(probe: Probe, name: str, *keys: str, **more: Any) -> Any:
    resource = DescribeConfigsResource(
        resource_type=_TOPIC, resource_name=name, configuration_keys=list(keys) or None
    )
    [found] = probe.call(DescribeConfigsRequest(resources=[resource], **more)).results
    return found


def _entry(probe: Probe, name: str, key: str, **more: Any) -> Any:
    found = _describe(probe, name, key, **more)
    probe.expect_error(found.error_code, ErrorCode.NONE)
    [entry] = found.configs
    return entry


def _alter(probe: Probe, name: str, key: str, how: int, value: str | None, **more: Any) -> int:
    config = AlterableConfig(name=key, config_operation=how, value=value)
    resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], **more)
    [found] = probe.call(request).responses
    code: int = found.error_code
    return code


def _becomes(probe: Probe, name: str, key: str, value: str) -> None:
    """Wait until the config has the value: a broker learns it from the metadata log."""
    probe.until(lambda: _entry(probe, name, key).value == value, f"{key}={value}")


@FAMILY.rule("defaults", source="KIP-226", section="ConfigSource", since="1.1")
def defaults(probe: Probe) -> None:
    """A config that was not set has a value and the source of a default."""
    name = create_topic(probe)
    found = probe.until(lambda: _known(probe, name), f"topic {name}")
    [entry] = [one for one in found.configs if one.name == "retention.ms"]
    probe.expect(bool(entry.value), "retention.ms has no value")
    sources = (ConfigSource.DEFAULT_CONFIG, ConfigSource.STATIC_BROKER_CONFIG)
    probe.expect(
        entry.config_source in (*sources, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
                                ConfigSource.DYNAMIC_BROKER_CONFIG),
        f"its source is {entry.config_source}",
    )  # fmt: skip


def _known(probe: Probe, name: str) -> Any:
    found = _describe(probe, name)
    return None if found.error_code else found


@FAMILY.rule("set", source="KIP-339", section="SET")
def set_config(probe: Probe) -> None:
    """A config that is set has the value and the source of its topic."""
    name = create_topic(probe)
    probe.until(lambda: _known(probe, name), f"topic {name}")
    code = _alter(probe, name, "retention.ms", _SET, "123456")
    probe.expect_error(code, ErrorCode.NONE)
    _becomes(probe, name, "retention.ms", "123456")
    source = _entry(probe, name, "retention.ms").config_source
    probe.expect(source == ConfigSource.TOPIC_CONFIG, f"its source is {source}")


@FAMILY.rule("delete", source="KIP-339", section="DELETE")
def delete_config(probe: Probe) -> None:
    """A config that is deleted has its default again."""
    name = create_topic(probe)
    probe.until(lambda: _known(probe, name), f"topic {name}")
    default = _entry(probe, name, "retention.ms").value
    _alter(probe, name, "retention.ms", _SET, "123456")
    _becomes(probe, name, "retention.ms", "123456")
    code = _alter(probe, name, "retention.ms", _DELETE, None)
    probe.expect_error(code, ErrorCode.NONE)
    _becomes(probe, name, "retention.ms", default)


@FAMILY.rule("append", source="KIP-339", section="APPEND")
def append(probe: Probe) -> None:
    """A value is appended to a config that is a list."""
    name = create_topic(probe)
    probe.until(lambda: _known(probe, name), f"topic {name}")
    _alter(probe, name, "cleanup.policy", _SET, "delete")
    _becomes(probe, name, "cleanup.policy", "delete")
    code = _alter(probe, name, "cleanup.policy", _APPEND, "compact")
    probe.expect_error(code, ErrorCode.NONE)
    _becomes(probe, name, "cleanup.policy", "delete,compact")


@FAMILY.rule("append-to-number", source="ConfigurationControlManager", section="INVALID_CONFIG")
def append_to_number(probe: Probe) -> None:
    """Nothing is appended to a config that is no list: INVALID_CONFIG."""
    name = create_topic(probe)
    probe.until(lambda: _known(probe, name), f"topic {name}")
    code = _alter(probe, name, "retention.ms", _APPEND, "1")
    probe.expect_error(code, ErrorCode.INVALID_CONFIG)


@FAMILY.rule("validate-only", source="KIP-339", section="ValidateOnly")
def validate_only(probe: Probe) -> None:
    """A request that only validates changes nothing."""
    name = create_topic(probe)
    probe.until(lambda: _known(probe, name), f"topic {name}")
    code = _alter(probe, name, "retention.ms", _SET, "123456", validate_only=True)
    probe.expect_error(code, ErrorCode.NONE)
    value = _entry(probe, name, "retention.ms").value
    probe.expect(value != "123456", "a request that only validates has set the config")


@FAMILY.rule("unknown-config", source="ConfigurationControlManager", section="INVALID_CONFIG")
def unknown_config(probe: Probe) -> None:
    """A config that topics do not have is refused: INVALID_CONFIG."""
    name = create_topic(probe)
    probe.until(lambda: _known(probe, name), f"topic {name}")
    code = _alter(probe, name, "no.such.config", _SET, "1")
    probe.expect_error(code, ErrorCode.INVALID_CONFIG)


@FAMILY.rule("invalid-value", source="ConfigurationControlManager", section="INVALID_CONFIG")
def invalid_value(probe: Probe) -> None:
    """A value that a config does not take is refused: INVALID_CONFIG."""
    name = create_topic(probe)
    probe.until(lambda: _known(probe, name), f"topic {name}")
    code = _alter(probe, name, "cleanup.policy", _SET, "sometimes")
    probe.expect_error(code, ErrorCode.INVALID_CONFIG)


@FAMILY.rule(
    "unknown-topic", source="ConfigurationControlManager", section="UNKNOWN_TOPIC_OR_PARTITION"
)
def unknown_topic(probe: Probe) -> None:
    """A topic that does not exist gets no config: UNKNOWN_TOPIC_OR_PARTITION."""
    create_topic(probe)
    code = _alter(probe, NO_NAME, "retention.ms", _SET, "1", validate_only=True)
    probe.expect_error(code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@FAMILY.rule(
    "unknown-topic-described",
    source="ConfigHelper",
    section="UNKNOWN_TOPIC_OR_PARTITION",
    apis=(ApiKey.DESCRIBE_CONFIGS,),
    changes=Changes.NOTHING,
    since=SINCE_EVER,
)
def unknown_topic_described(probe: Probe) -> None:
    """The configs of a topic that does not exist are not described: UNKNOWN_TOPIC_OR_PARTITION."""
    found = _describe(probe, NO_NAME)
    probe.expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@FAMILY.rule(
    "only-what-was-asked",
    source="DescribeConfigsRequest.json",
    section="ConfigurationKeys",
    since=SINCE_EVER,
)
def only_what_was_asked(probe: Probe) -> None:
    """Only the configs whose keys were given are described."""
    name = create_topic(probe)
    probe.until(lambda: _known(probe, name), f"topic {name}")
    found = _describe(probe, name, "retention.ms", "cleanup.policy")
    names = sorted(entry.name for entry in found.configs)
    probe.expect(names == ["cleanup.policy", "retention.ms"], f"{names} are described")


@FAMILY.rule("synonyms", source="KIP-226", section="IncludeSynonyms", since="1.1")
def synonyms(probe: Probe) -> None:
    """Synonyms are named if asked for; the first one is the config that was set."""
    name = create_topic(probe)
    probe.until(lambda: _known(probe, name), f"topic {name}")
    without = _entry(probe, name, "retention.ms")
    probe.expect(not without.synonyms, "there are synonyms, although none were asked for")
    _alter(probe, name, "retention.ms", _SET, "123456")
    _becomes(probe, name, "retention.ms", "123456")
    entry = _entry(probe, name, "retention.ms", include_synonyms=True)
    found = [(one.name, one.value) for one in entry.synonyms[:1]]
    probe.expect(found == [("retention.ms", "123456")], f"the first synonym is {found}")


@FAMILY.rule("documentation", source="KIP-569", section="IncludeDocumentation", since="2.6")
def documentation(probe: Probe) -> None:
    """Documentation is there if asked for, and the type of a config always."""
    name = create_topic(probe)
    probe.until(lambda: _known(probe, name), f"topic {name}")
    probe.expect(not _entry(probe, name, "retention.ms").documentation, "it was not asked for")
    entry = _entry(probe, name, "retention.ms", include_documentation=True)
    probe.expect(bool(entry.documentation), "documentation was asked for, and is missing")
    probe.expect(entry.config_type > 0, f"its type is {entry.config_type}")
