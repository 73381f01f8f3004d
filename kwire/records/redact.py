"""Secrets out of decoded metadata records, before they are printed or stored. Knows record types and names of configs.

The log holds SCRAM keys, from which a user can be impersonated, and the values of configs of type PASSWORD in the clear
(``RecordRedactor`` hides both in Kafka's own logs). Its delegation token records hold no HMAC.
"""

from __future__ import annotations

import re
from typing import Any, Final

#: What stands in place of a secret; of a secret of type bytes, these letters' bytes where bytes are asked for.
REDACTED: Final = "(redacted)"

#: Members that are secrets whatever they hold, by record type.
_SECRET_MEMBERS: Final[dict[str, tuple[str, ...]]] = {"USER_SCRAM_CREDENTIAL_RECORD": ("salt", "storedKey", "serverKey")}
# Every config of Kafka 4.4 of type PASSWORD, with or without a listener's and a mechanism's prefix, and, to be on the
# safe side of plug-ins, whatever is called by such a word.
_SECRET_CONFIG: Final = re.compile(
    r"password|passphrase|secret|credential|jaas|private|token\.master\.key|ssl\.keystore\.key|certificate",
    re.IGNORECASE,
)


def redact(record_type: str, data: dict[str, Any]) -> dict[str, Any]:
    """``data`` (members of a record of type ``record_type``, such as CONFIG_RECORD, by JSON name) without its secrets.

    A copy where something was taken out, else ``data`` itself. A member that is null stays null: that a config was
    removed is no secret.
    """
    secret = _SECRET_MEMBERS.get(record_type, ())
    if record_type == "CONFIG_RECORD" and _SECRET_CONFIG.search(str(data.get("name"))):
        secret = ("value",)
    hidden = {name: _hidden(data[name]) for name in secret if data.get(name) is not None}
    return {**data, **hidden} if hidden else data


def _hidden(value: Any) -> str | bytes:
    return REDACTED.encode() if isinstance(value, bytes) else REDACTED
