"""How values of configuration keys are read: as Kafka's ConfigDef reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.controller.configs.broker_keys import BROKER_KEYS, LISTENER_KEYS, STATIC_BROKER_KEYS
from gateway.controller.configs.client_metrics_keys import CLIENT_METRICS_KEYS
from gateway.controller.configs.config_def import ConfigError, ConfigKey, ConfigType, written
from gateway.controller.configs.group_keys import GROUP_KEYS
from gateway.controller.configs.topic_configs import check_topic_configs
from gateway.controller.configs.topic_keys import TOPIC_KEYS

ALL_KEYS = [
    *TOPIC_KEYS.values(),
    *GROUP_KEYS.values(),
    *CLIENT_METRICS_KEYS.values(),
    *BROKER_KEYS.values(),
]


@pytest.mark.parametrize("key", ALL_KEYS, ids=lambda key: str(key.name))
def test_every_default_is_a_value_in_its_own_form(key: ConfigKey) -> None:
    if key.default is not None:
        key.parse(key.default)
        assert key.canonical(key.default) == key.default


def test_broker_key_is_either_dynamic_or_static() -> None:
    assert not STATIC_BROKER_KEYS & BROKER_KEYS.keys() and not LISTENER_KEYS & (
        STATIC_BROKER_KEYS | BROKER_KEYS.keys()
    )
    synonyms = {synonym.name for key in TOPIC_KEYS.values() for synonym in key.synonyms}
    assert synonyms <= STATIC_BROKER_KEYS | BROKER_KEYS.keys()


# The verdict of LogConfig.validate of Kafka 4.3.1 on each value.
@pytest.mark.parametrize(
    ("name", "value", "is_valid"),
    [
        ("cleanup.policy", "", True),
        ("cleanup.policy", "compact,compact", True),
        ("cleanup.policy", "delete, compact", True),
        ("cleanup.policy", "DELETE", False),
        ("cleanup.policy", ",", False),
        ("compression.type", "ZSTD", False),
        ("compression.type", " zstd ", True),
        ("compression.type", "", False),
        ("retention.ms", "+5", True),
        ("retention.ms", " 5 ", True),
        ("retention.ms", "5.0", False),
        ("retention.ms", "5_0", False),
        ("retention.ms", "", False),
        ("retention.ms", "99999999999999999999", False),
        ("retention.ms", "-2", False),
        ("segment.bytes", "100", False),
        ("preallocate", "TRUE", True),
        ("preallocate", "yes", False),
        ("min.cleanable.dirty.ratio", "NaN", True),
        ("min.cleanable.dirty.ratio", "0x1p-1", True),
        ("min.cleanable.dirty.ratio", "0.5d", True),
        ("min.cleanable.dirty.ratio", "1.1", False),
        ("min.cleanable.dirty.ratio", "nan", False),
        ("leader.replication.throttled.replicas", "*", True),
        ("leader.replication.throttled.replicas", "1:2,3:4", True),
        ("leader.replication.throttled.replicas", "1:2,*", False),
        ("leader.replication.throttled.replicas", "", True),
        ("leader.replication.throttled.replicas", "none", False),
        ("compression.gzip.level", "0", False),
        ("compression.gzip.level", "-1", True),
        ("message.timestamp.type", "createtime", False),
        ("message.format.version", "3.0", False),
        ("foo", "bar", False),
    ],
)
def test_topic_value_is_valid_as_in_kafka(name: str, value: str, is_valid: bool) -> None:
    if is_valid:
        check_topic_configs({name: value})
    else:
        with pytest.raises(ConfigError):
            check_topic_configs({name: value})


# The text that Java's Double.toString makes of each value.
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1", "1.0"),
        ("0.5d", "0.5"),
        ("1e7", "1.0E7"),
        ("12345678.5", "1.23456785E7"),
        ("0.001", "0.001"),
        ("0.0001", "1.0E-4"),
        ("1e-300", "1.0E-300"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "Infinity"),
        ("-1e999", "-Infinity"),
        ("0x1p-1", "0.5"),
        ("123456789012", "1.23456789012E11"),
        ("-0.0", "-0.0"),
        ("100", "100.0"),
        ("-25000000", "-2.5E7"),
        ("1.5e16", "1.5E16"),
    ],
)
def test_doubles_are_written_as_java_does(text: str, shown: str) -> None:
    assert ConfigKey("x", ConfigType.DOUBLE, "0").canonical(text) == shown


@given(
    st.sampled_from(ALL_KEYS), st.text(max_size=30) | st.integers().map(str) | st.floats().map(str)
)
def test_any_text_is_a_value_or_a_config_error(key: ConfigKey, text: str) -> None:
    shown = key.canonical(text)
    assert key.canonical(shown) == shown
    try:
        value = key.parse(text)
    except ConfigError as error:
        assert key.name in str(error)
    else:
        assert written(value) == shown


def test_long_digits_are_refused_unread() -> None:
    with pytest.raises(ConfigError):
        TOPIC_KEYS["retention.ms"].parse("1" * 5_000_000)
