"""Makes SCRAM credentials for names without one, so that the server's first message does not reveal
which users exist.

A decoy looks like a real credential of the mechanism: the same number of iterations, and a salt of
the same form. It is a keyed hash of the name, so that every node with the same secret makes the
same decoy at any time. Pure: the caller passes secret and records. Kafka (``ScramSaslServer``) has
no decoys: it ends the authentication of an unknown user after the first message.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.security.scram import HASHES, ITERATIONS_MIN
from gateway.security.scram_server import ScramCredential
from gateway.security.secret import Secret

if TYPE_CHECKING:
    from kwire.messages.user_scram_credential_record import UserScramCredentialRecord

#: Kafka's tools write 130 random bits with 36 digits (``ScramFormatter.secureRandomString``).
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_BITS: Final = 130
_KAFKA_SALT: Final = range(20, 27)
#: Credentials that are counted to find the most common form: some ms of the event loop.
_COUNTED_MAX: Final = 2000


class Form(NamedTuple):
    """The form of a credential as a client sees it. ``salt_bytes``: random bytes of the salt, 0 for
    a salt of Kafka's tools.
    """

    iterations: int = ITERATIONS_MIN
    salt_bytes: int = 0


def form_of(records: Iterable[UserScramCredentialRecord]) -> Form:
    """Return the most common form of these credentials; of two as common, the one with more
    iterations.
    """
    counted = Counter(
        Form(record.iterations, _random_bytes(bytes(record.salt)))
        for record in islice(records, _COUNTED_MAX)
        if record.iterations >= ITERATIONS_MIN
    )
    return max(counted, key=lambda form: (counted[form], form), default=Form())


def _random_bytes(salt: bytes) -> int:
    is_kafkas = len(salt) in _KAFKA_SALT and all(chr(byte) in _DIGITS for byte in salt)
    return 0 if is_kafkas else len(salt)


class ScramDecoys:
    """Makes decoys by mechanism and name, from a secret that all nodes of a cluster share."""

    def __init__(self, secret: Secret | None, cluster_id: str) -> None:
        """``secret``: ``delegation.token.secret.key``. Without it decoys come from the cluster id,
        which clients can learn.
        """
        shared = secret.reveal() if secret is not None else cluster_id
        self._key = hmac.digest(shared.encode("utf-8", "surrogatepass"), b"SCRAM decoys", "sha512")

    def user(self, mechanism: str, name: str, form: Form) -> ScramCredential:
        """Return the decoy of a user. No password matches its keys."""
        return self._credential(mechanism, f"user:{name}", form)

    def token(self, mechanism: str, token_id: str) -> ScramCredential:
        """Return the decoy of a delegation token. Existing tokens have salts of the same form."""
        return self._credential(mechanism, f"token:{token_id}", Form())

    def _credential(self, mechanism: str, name: str, form: Form) -> ScramCredential:
        named = f"{mechanism}:{name}".encode("utf-8", "surrogatepass")
        drawn = hmac.digest(self._key, b"salt:" + named, "sha512")
        key = hmac.digest(self._key, b"keys:" + named, HASHES[mechanism])
        salt = _expanded(drawn, form.salt_bytes) if form.salt_bytes else _kafka_salt(drawn)
        return ScramCredential(salt, key, key, form.iterations)


def _expanded(drawn: bytes, size: int) -> bytes:
    return hashlib.shake_256(drawn).digest(size)


def _kafka_salt(drawn: bytes) -> bytes:
    number, salt = int.from_bytes(drawn[:17], "big") >> (17 * 8 - _BITS), ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        salt = _DIGITS[digit] + salt
    return salt.encode()
