"""Hides the secrets of Kafka's metadata: the one rule for all code that prints, stores or serves
metadata.

The metadata log holds SCRAM keys, from which a user can be impersonated, and the values of configs
of type PASSWORD in the clear. As in Kafka (``KafkaConfigSchema.isSensitive``, ``RecordRedactor``) a
config is secret unless it is known not to be. Its delegation token records hold no HMAC.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kwire.protocol import ConfigResourceType
from kwire.records.secret_table import MECHANISM_CONFIGS, PUBLIC_CONFIGS, SECRET_MEMBERS

#: Text in place of a secret; of a secret of type bytes, these letters' bytes where bytes are
#: asked for.
REDACTED: Final = "(redacted)"

_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)", re.DOTALL)


def is_secret_config(resource_type: int, name: str) -> bool:
    """True if the value of this config is secret. ``resource_type`` is a ``ConfigResource.Type``;
    all configs of an unknown one are secret.

    A broker's config of one listener is what the config without the listener's prefix is
    (``KafkaConfig.configType``).
    """
    known = broker_config(name) if resource_type == ConfigResourceType.BROKER else name
    return known not in PUBLIC_CONFIGS.get(resource_type, frozenset())


def broker_config(name: str) -> str:
    """Return the config without its listener prefix: ``ssl.key.password`` of
    ``listener.name.external.ssl.key.password``. It decides the type.
    """
    found = _OF_LISTENER.fullmatch(name)
    if found is None:
        return name
    base = found[1]
    return next((key for key in MECHANISM_CONFIGS if base.endswith(key)), base)


def redact(record_type: str, data: dict[str, Any]) -> dict[str, Any]:
    """``data`` (members of a record of type ``record_type``, such as CONFIG_RECORD, by JSON name)
    without its secrets.

    Return a copy if something was removed, else ``data`` itself. A member that is null stays null:
    that a config was removed is no secret.
    """
    secret = SECRET_MEMBERS.get(record_type, ())
    if record_type == "CONFIG_RECORD" and is_secret_config(data["resourceType"], data["name"]):
        secret = ("value",)
    hidden = {name: _hidden(data[name]) for name in secret if data.get(name) is not None}
    return {**data, **hidden} if hidden else data


def _hidden(value: Any) -> str | bytes:
    return REDACTED.encode() if isinstance(value, bytes) else REDACTED
