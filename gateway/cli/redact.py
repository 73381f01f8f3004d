"""Secrets out of decoded metadata records, before anybody sees them. Knows record types and names of configs.

Kafka's log holds SCRAM keys, from which a user can be impersonated, and the values of broker configs of type PASSWORD
in the clear. Its delegation token records hold no HMAC.
"""

from __future__ import annotations

import re
from typing import Any, Final

#: What stands in place of a secret (the word of Kafka's ``RecordRedactor``).
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
    """``data`` (the JSON form of a record of type ``record_type``, such as CONFIG_RECORD) without its secrets.

    A copy where something was taken out, else ``data`` itself. Members that are null stay null: that a config was
    removed is no secret.
    """
    secret = _SECRET_MEMBERS.get(record_type, ())
    if record_type == "CONFIG_RECORD" and _SECRET_CONFIG.search(str(data.get("name"))):
        secret = ("value",)
    hidden = {member: REDACTED for member in secret if data.get(member) is not None}
    return {**data, **hidden} if hidden else data
