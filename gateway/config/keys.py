"""Lists the keys of the configuration, as the fields of ``Config`` describe them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from gateway.config.config import Config
from gateway.config.values import PARSERS, Key


def _keys() -> dict[str, Key]:
    keys = {}
    for attribute in dataclasses.fields(Config):
        if not attribute.metadata:  # ``security``, which ``loading`` fills with many keys
            continue
        name, about = attribute.name.replace("_", "."), attribute.metadata
        keys[name] = Key(
            name=name,
            attribute=attribute.name,
            parse=PARSERS[str(attribute.type)],
            help=about["help"],
            unit=about["unit"],
            default=attribute.default_factory()
            if callable(attribute.default_factory)
            else attribute.default,
            choices=about.get("choices", ()),
            aliases=about.get("aliases", ()),
        )
    return keys


#: Every key by its name, in the order of Config.
KEYS: Final[Mapping[str, Key]] = _keys()
ALIASES: Final = {alias: key.name for key in KEYS.values() for alias in key.aliases}
