"""Implements the client's side of SCRAM (RFC 5802, RFC 7677). Pure: the caller passes the nonce and
the messages.

It is not a library's, because libraries prepare names and passwords by SASLprep and get another key
for the same password; Kafka (``ScramFormatter.normalize``) takes them as UTF-8. It checks a
server's message before any work: the iteration count must be within Kafka's bounds, the nonce must
continue the client's, and no unknown extension may be mandatory.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

from gateway.security.secret import Secret
from kwire.protocol import SCRAM_MECHANISMS, ScramMechanism

#: ``ScramMechanism``: fewer iterations than the least do not protect; Kafka stores no credential
#: with more than the most.
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
#: Mechanism -> the name of its hash.
HASHES: Final = {
    SCRAM_MECHANISMS[ScramMechanism.SCRAM_SHA_256]: "sha256",
    SCRAM_MECHANISMS[ScramMechanism.SCRAM_SHA_512]: "sha512",
}
#: Mechanism -> its number in records and requests.
MECHANISM_NUMBERS: Final = {name: number for number, name in SCRAM_MECHANISMS.items()}

#: Channel binding: none, and no authorization id ("n,,"), in base64.
_GS2_HEADER: Final = "n,,"
_SALT_MAX: Final = 1024
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9+/]+={0,2}"
_SERVER_FIRST: Final = re.compile(
    rf"r=({_NONCE}),s=({_BASE64}),i=([1-9][0-9]{{0,9}})(?:,.*)?", re.DOTALL
)
_SERVER_FINAL: Final = re.compile(rf"v=({_BASE64})(?:,.*)?", re.DOTALL)
_SERVER_ERROR: Final = re.compile(r"e=([a-z0-9-]{1,40})(?:,.*)?", re.DOTALL)


class SaslError(Exception):
    """The server's part of an authentication is invalid. The text is this client's own and has no
    secret.
    """


class ScramClient:
    """One authentication: :meth:`first`, then :meth:`respond` to each message of the server until
    :attr:`complete`.
    """

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: Secret,
        nonce: str,
        *,
        is_token: bool = False,
    ) -> None:
        """``nonce``: printable ASCII without comma, from a secure source, used once. ``is_token``:
        user name and password are those of a delegation token (KIP-48). Raises KeyError,
        ValueError.
        """
        if not re.fullmatch(_NONCE, nonce):
            raise ValueError("a nonce is printable ASCII without commas")
        self.mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._username = username.replace("=", "=3D").replace(",", "=2C")
        self._password = password
        self._nonce = nonce
        # ``ScramExtensions``.
        self._extension = ",tokenauth=true" if is_token else ""
        self._server_signature: bytes | None = None
        self.complete = False  #: The server has proved that it knows the password's keys.

    def first(self) -> bytes:
        """Return the client-first message."""
        return f"{_GS2_HEADER}{self._bare()}".encode()

    def respond(self, message: bytes) -> bytes | None:
        """Return the response to a message of the server; None to its last one. Takes up to tens of
        ms: not for an event loop.

        Raises SaslError; an invalid message is refused before any work is done for it.
        """
        text = _text(message)
        if self._server_signature is None:
            return self._client_final(text)
        self._check_final(text)
        return None

    def _bare(self) -> str:
        return f"n={self._username},r={self._nonce}{self._extension}"

    def _client_final(self, text: str) -> bytes:
        nonce, salt, iterations = self._server_first(text)
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.reveal().encode(), salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        binding = base64.b64encode(_GS2_HEADER.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        auth_message = f"{self._bare()},{text},{without_proof}".encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), auth_message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), auth_message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _server_first(self, text: str) -> tuple[str, bytes, int]:
        if text.startswith("m="):
            raise SaslError("the server demands a SCRAM extension that is not supported")
        match = _SERVER_FIRST.fullmatch(text)
        if match is None:
            raise SaslError("the server's first SCRAM message is malformed")
        nonce, salt, iterations = match[1], _base64(match[2]), int(match[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError(
                "the server's SCRAM nonce does not continue the client's: the message is for"
                " another client"
            )
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise SaslError(
                f"the server asks for {iterations} SCRAM iterations, {ITERATIONS_MIN} to"
                f" {ITERATIONS_MAX} are allowed"
            )
        if len(salt) > _SALT_MAX:
            raise SaslError(
                f"the server's SCRAM salt has {len(salt)} bytes, {_SALT_MAX} are allowed"
            )
        return nonce, salt, iterations

    def _check_final(self, text: str) -> None:
        assert self._server_signature is not None
        if error := _SERVER_ERROR.fullmatch(text):
            raise SaslError(f"the server says {error[1]}")
        match = _SERVER_FINAL.fullmatch(text)
        if match is None:
            raise SaslError("the server's final SCRAM message is malformed")
        if self.complete or not hmac.compare_digest(_base64(match[1]), self._server_signature):
            raise SaslError(
                "the server does not know the password's keys: it is not who it should be"
            )
        self.complete = True

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _text(message: bytes) -> str:
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError:
        raise SaslError("the server's SCRAM message is no UTF-8") from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise SaslError("the server's SCRAM message holds malformed base64") from None
