"""The table of secret configs and the keys that the controller checks agree."""

from __future__ import annotations

import pytest

from gateway.config.keys import KEYS as OWN_KEYS
from gateway.controller.configs.broker_keys import LISTENER_KEYS, STATIC_BROKER_KEYS
from gateway.controller.configs.config_def import ConfigType
from gateway.controller.configs.resource_configs import KEYS
from kwire.protocol import ConfigResourceType
from kwire.records.redact import is_secret_config
from kwire.records.secret_table import BROKER_PASSWORDS, PUBLIC_CONFIGS


@pytest.mark.parametrize("resource_type", KEYS)
def test_config_is_secret_exactly_where_its_type_is_password(resource_type: int) -> None:
    for key in KEYS[resource_type].values():
        assert is_secret_config(resource_type, key.name) is (key.type is ConfigType.PASSWORD), (
            key.name
        )


def test_names_of_all_configs_of_brokers_are_in_the_table() -> None:
    assert PUBLIC_CONFIGS[ConfigResourceType.BROKER] | BROKER_PASSWORDS >= (
        STATIC_BROKER_KEYS | LISTENER_KEYS
    )


def test_own_settings_that_are_described_hold_no_secret() -> None:
    """Security settings, passwords among them, are read apart from these: DescribeConfigs does not
    know them.
    """
    assert not OWN_KEYS.keys() & BROKER_PASSWORDS
