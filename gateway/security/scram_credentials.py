"""Makes SCRAM credentials as the metadata log holds them, and reads those that ``kwire format
--add-scram`` is given.

The syntax of ``--add-scram`` is that of ``kafka-storage format`` (``ScramParser``); a name or a key
that is there twice, which Kafka takes, is refused. It does not verify logins: ``scram_server``
does.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import Final

from gateway.security.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN, MECHANISM_NUMBERS
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.protocol import SCRAM_MECHANISMS

_KEYS: Final = ("name", "password", "saltedpassword", "salt", "iterations")
_SALT_BYTES: Final = 20


def credential_record(
    name: str, mechanism: int, salt: bytes, salted_password: bytes, iterations: int
) -> UserScramCredentialRecord:
    """Return the record of a credential. It has keys that are derived from the password, with which
    a server verifies a login, and which are no use to log in (RFC 5802, 3).
    """
    algorithm = HASHES[SCRAM_MECHANISMS[mechanism]]
    client_key = hmac.digest(salted_password, b"Client Key", algorithm)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=salt,
        stored_key=hashlib.new(algorithm, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", algorithm),
        iterations=iterations,
    )


def parse_credentials(
    texts: Sequence[str], random: Callable[[int], bytes]
) -> tuple[UserScramCredentialRecord, ...]:
    """Return the records of ``MECHANISM=[name=...,password=...]``, one for each text.

    ``random`` returns so many random bytes, for the salt where none is given. Raises ValueError,
    whose text repeats neither passwords nor salts.
    """
    found: dict[tuple[str, int], UserScramCredentialRecord] = {}
    for record in (_parse(text, random) for text in texts):
        user = record.name, record.mechanism
        if user in found:
            raise ValueError(
                f"{record.name!r} has two credentials for {SCRAM_MECHANISMS[record.mechanism]}"
            )
        found[user] = record
    return tuple(found.values())


def _parse(text: str, random: Callable[[int], bytes]) -> UserScramCredentialRecord:
    mechanism, equals, rest = text.strip(" ").partition("=")
    if not equals:
        raise ValueError("it is not of the form MECHANISM=[name=NAME,password=PASSWORD]")
    if mechanism not in MECHANISM_NUMBERS:
        raise ValueError(f"the mechanism {mechanism!r} is none of {', '.join(MECHANISM_NUMBERS)}")
    if not (rest.startswith("[") and rest.endswith("]")):
        raise ValueError(f"the properties of {mechanism} have to stand in brackets, [ and ]")
    values = _values(rest[1:-1].removesuffix(","))
    for key in ("name", "password", "saltedpassword"):
        if not values.get(key, "-"):
            raise ValueError(f"{key} is empty")
    if "name" not in values:
        raise ValueError("name is missing")
    iterations = _iterations(values.get("iterations", str(ITERATIONS_MIN)))
    salt = _bytes("salt", values["salt"]) if "salt" in values else random(_SALT_BYTES)
    salted = _salted(values, mechanism, salt, iterations)
    return credential_record(values["name"], MECHANISM_NUMBERS[mechanism], salt, salted, iterations)


def _values(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        key, value = key.strip(" "), value.strip(" ")
        if not equals:
            raise ValueError("a part between two commas has no =; a password cannot have a comma")
        if key not in _KEYS:
            raise ValueError(f"{key!r} is none of {', '.join(_KEYS)}")
        if key in values:
            raise ValueError(f"{key} is there twice")
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        values[key] = value
    return values


def _salted(values: dict[str, str], mechanism: str, salt: bytes, iterations: int) -> bytes:
    given = [key for key in ("password", "saltedpassword") if key in values]
    if len(given) != 1:
        raise ValueError("give one of password and saltedpassword")
    if given == ["password"]:
        password = values["password"].encode()
        return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)
    if "salt" not in values:
        raise ValueError("saltedpassword needs the salt that it was made with")
    return _bytes("saltedpassword", values["saltedpassword"])


def _iterations(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError("iterations is not a whole number")
    if not ITERATIONS_MIN <= int(text) <= ITERATIONS_MAX:
        raise ValueError(f"iterations is not within {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return int(text)


def _bytes(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(f"{key} is not base64") from None
