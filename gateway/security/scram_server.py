"""Implements the server's side of SCRAM (RFC 5802, RFC 7677). Pure: the caller passes nonce and
credentials.

A name without a credential gets a decoy (:mod:`gateway.security.scram_decoys`) and fails where a
wrong password does, so that a client does not learn which users exist. (Kafka ends after the first
message.)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gateway.security.sasl_server import InvalidCredentials, SaslFailed, TokenUse
from gateway.security.scram import HASHES, ITERATIONS_MIN
from gateway.security.secret import Secret

_NAME: Final = r"(?:[^=,\x00]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9+/]+={0,2}"
#: Mandatory extensions ("m=") and channel binding are not supported.
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<more>(?:,[A-Za-z]+=[^,\x00]+)*))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE})(?:,[A-Za-z]+=[^,\x00]+)*?)"
    rf",p=(?P<proof>{_BASE64})"
)
_TOKEN_AUTH: Final = re.compile(r",tokenauth=true(?:,|$)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The stored form of one user's password for one mechanism (``UserScramCredentialRecord``)."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramToken:
    """A delegation token: its owner, and its keys for one mechanism. It is valid for
    ``remaining_ms`` more.
    """

    owner: str
    credential: ScramCredential
    remaining_ms: int


class ScramServer:
    """One authentication: two messages of the client, each with a response. ``username`` is
    authenticated once ``complete`` is true.
    """

    def __init__(
        self,
        mechanism: str,
        credential: Callable[[str], ScramCredential | None],
        nonce: str,
        decoy: Callable[[str, bool], ScramCredential],
        token: Callable[[str], ScramToken | None] = lambda id: None,
    ) -> None:
        """``nonce``: printable ASCII without comma, used once. ``credential`` and ``token`` look up
        a user's name and a token's id. ``decoy`` returns the credential for a name without one; its
        second argument is true for a token's id.

        Raises KeyError for an unknown mechanism.
        """
        self.mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._credential = credential
        self._nonce = nonce
        self._decoy = decoy
        self._find_token = token
        self._first: tuple[str, str, str, ScramCredential, bool] | None = None
        self.complete = False
        self.username = ""
        self.token: TokenUse | None = None

    def evaluate(self, message: bytes) -> bytes:
        """Return the response to a message. Raises SaslFailed, which ends the authentication."""
        try:
            text = message.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidCredentials(self.mechanism) from None
        return self._server_final(text) if self._first is not None else self._server_first(text)

    def _server_first(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise InvalidCredentials(self.mechanism)
        name = _plain(match["name"])
        if match["authzid"] is not None and _plain(match["authzid"]) != name:
            raise SaslFailed(
                "Authentication failed: Client requested an authorization id that is different from"
                " username"
            )
        by_token = _TOKEN_AUTH.search(match["more"]) is not None
        # Made for every name, so that the response takes as long for a user as for an unknown name.
        decoy = self._decoy(name, by_token)
        found = self._by_token(name) if by_token else self._by_name(name)
        is_used = found is not None and found.iterations >= ITERATIONS_MIN
        credential = found if found is not None and is_used else decoy
        nonce = match["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={nonce},s={salt},i={credential.iterations}"
        self._first = (match["header"], nonce, f"{match['bare']},{answer}", credential, is_used)
        return answer.encode()

    def _by_name(self, name: str) -> ScramCredential | None:
        self.username = name
        return self._credential(name)

    def _by_token(self, id: str) -> ScramCredential | None:
        found = self._find_token(id)
        if found is None:
            return None
        self.username, self.token = found.owner, TokenUse(found.remaining_ms)
        return found.credential

    def _server_final(self, text: str) -> bytes:
        assert self._first is not None and not self.complete, "no message is expected"
        header, nonce, so_far, credential, is_known = self._first
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None or match["nonce"] != nonce or _bytes(match["binding"]) != header.encode():
            raise InvalidCredentials(self.mechanism)
        auth_message = f"{so_far},{match['bare']}".encode()
        proof, signature = (
            _bytes(match["proof"]),
            hmac.digest(credential.stored_key, auth_message, self._hash),
        )
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        stored_key = hashlib.new(self._hash, client_key).digest()
        right = len(proof) == len(signature) and hmac.compare_digest(
            stored_key, credential.stored_key
        )
        if not (right and is_known):
            raise InvalidCredentials(self.mechanism)
        self.complete = True
        server_signature = hmac.digest(credential.server_key, auth_message, self._hash)
        return b"v=" + base64.b64encode(server_signature)


def scram_credential(
    mechanism: str, password: Secret, salt: bytes, iterations: int = ITERATIONS_MIN
) -> ScramCredential:
    """Return the stored form of a password (``ScramFormatter.generateCredential``). Takes some ms
    of CPU.
    """
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.reveal().encode(), salt, iterations)
    stored_key = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)


def _plain(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
