"""The controller's configuration keys equal those that were imported from Kafka's jars."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.controller.configs.broker_keys import BROKER_KEYS, LISTENER_KEYS, STATIC_BROKER_KEYS
from gateway.controller.configs.client_metrics_keys import CLIENT_METRICS_KEYS
from gateway.controller.configs.config_def import ConfigKey
from gateway.controller.configs.group_keys import GROUP_KEYS
from gateway.controller.configs.topic_keys import TOPIC_KEYS
from kwire.codegen.protocol import newest

FACTS: dict[str, Any] = json.loads(
    newest(Path(__file__).parents[3] / "schemas/facts").read_text(encoding="utf-8")
)["configKeys"]
MODES: dict[str, str] = FACTS["brokerUpdateModes"]
#: Quotas of replication: brokers take them, and no ConfigDef of a broker names them.
QUOTAS = {"follower.replication.throttled.rate", "leader.replication.throttled.rate"}
QUOTAS |= {"replica.alter.log.dirs.io.max.bytes.per.second"}
_RANGE = re.compile(r"\[(-?[0-9]+(?:\.[0-9]+)?)?,?\.\.\.,?(-?[0-9]+(?:\.[0-9]+)?)?\]")


def public(area: str) -> dict[str, dict[str, Any]]:
    return {name: row for name, row in FACTS[area].items() if not row.get("internal")}


@pytest.mark.parametrize(
    ("area", "keys"),
    [("topic", TOPIC_KEYS), ("group", GROUP_KEYS), ("clientMetrics", CLIENT_METRICS_KEYS)],
)
def test_keys_are_those_of_kafka(area: str, keys: Mapping[str, ConfigKey]) -> None:
    assert keys.keys() == public(area).keys()
    assert {
        name: wrong for name, key in keys.items() if (wrong := unlike(key, FACTS[area][name]))
    } == {}


def test_topic_keys_have_the_synonyms_of_kafka() -> None:
    kwires = {
        name: [one.name for one in key.synonyms] for name, key in TOPIC_KEYS.items() if key.synonyms
    }
    assert kwires == {
        name: names for name, names in FACTS["topicSynonyms"].items() if name in TOPIC_KEYS
    }


def test_broker_keys_are_kafkas_dynamic_keys() -> None:
    assert BROKER_KEYS.keys() | LISTENER_KEYS | QUOTAS == MODES.keys()
    assert FACTS["broker"].keys() - MODES.keys() == STATIC_BROKER_KEYS
    assert {
        name: wrong
        for name, key in BROKER_KEYS.items()
        if (wrong := unlike(key, FACTS["broker"][name]))
    } == {}
    assert {name for name, key in BROKER_KEYS.items() if key.per_broker} == {
        name for name in BROKER_KEYS if MODES[name] == "per-broker"
    }


def unlike(key: ConfigKey, row: Mapping[str, Any]) -> list[str]:
    """The differences of the key from Kafka's. A limit that a broker's own settings narrow further
    may be tighter.
    """
    found = []
    default = row["default"]
    if default is None and key.synonyms:  # shown as what the broker is set to
        default = FACTS["broker"][key.synonyms[0].name]["default"]
    if (key.type.name, key.default) != (row["type"], default):
        found.append(f"{key.type.name} {key.default} instead of {row['type']} {default}")
    limits = _RANGE.fullmatch(row.get("valid", ""))
    if limits is not None:
        low, high = (None if limit is None else float(limit) for limit in limits.groups())
        if low is not None and (key.low is None or key.low < low):
            found.append(f"at least {key.low} instead of {low}")
        if high is not None and (key.high is None or key.high > high):
            found.append(f"at most {key.high} instead of {high}")
    return found
