"""What stands between a listener and its requests: TLS, and who a peer is. Made once a listener from what was configured."""

from __future__ import annotations

import base64
import secrets
import ssl
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.security.delegation_tokens import token_hmac
from gateway.security.principal_rules import PrincipalRules
from gateway.security.sasl_server import PLAIN, PlainServer
from gateway.security.sasl_session import Mechanism, SaslSession
from gateway.security.scram_server import MECHANISM_NUMBERS, ScramCredential, ScramServer, ScramToken, scram_credential
from gateway.security.secret import Secret
from gateway.security.ssl_principal import ANONYMOUS, distinguished_name
from gateway.server.tls import server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.security.listeners import ListenerSecurity
    from gateway.security.sasl_server import SaslServer
    from kwire.cluster.image import Image

_NONCE_BYTES: Final = 24
_SALT_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Guard:
    """One listener's. ``tls``: None without it. ``mechanisms``: of SASL, None without it. ``rules`` make names of subjects."""

    tls: ssl.SSLContext | None = None
    mechanisms: Mapping[str, Mechanism] | None = None
    rules: PrincipalRules = field(default_factory=PrincipalRules)

    def session(self) -> SaslSession | None:
        """The authentication of a new connection, if one is wanted."""
        return None if self.mechanisms is None else SaslSession(self.mechanisms)

    def principal(self, certificate: bytes | None) -> str:
        """Who showed this certificate (DER), before anything else was said. Raises ValueError where no rule names it."""
        if certificate is None or self.mechanisms is not None:
            return ANONYMOUS
        return f"User:{self.rules.name(distinguished_name(certificate))}"


def guards_of(
    listeners: Mapping[str, ListenerSecurity], image: Callable[[], Image], token_key: Secret | None = None
) -> dict[str, Guard]:
    """By listener, those that need one. ``image``: whose SCRAM credentials and delegation tokens hold, these with ``token_key``.

    Takes ms: keys are loaded. Raises ssl.SSLError and OSError.
    """
    credentials = _Credentials(image, token_key)
    return {name: _guard(one, credentials) for name, one in listeners.items() if one.protocol != "PLAINTEXT"}


def _guard(security: ListenerSecurity, credentials: _Credentials) -> Guard:
    tls = None if security.tls is None else server_context(security.tls, security.client_auth)
    if security.mechanisms is None:
        return Guard(tls, rules=security.rules)
    made = {
        name: Mechanism(_maker(name, security, credentials), max_reauth_ms) for name, max_reauth_ms in security.mechanisms.items()
    }
    return Guard(tls, made)


def _maker(mechanism: str, security: ListenerSecurity, credentials: _Credentials) -> Callable[[], SaslServer]:
    if mechanism == PLAIN:
        return lambda: PlainServer(security.passwords)
    find, find_token = partial(credentials.find, MECHANISM_NUMBERS[mechanism]), partial(credentials.find_token, mechanism)
    return lambda: ScramServer(mechanism, find, secrets.token_urlsafe(_NONCE_BYTES), credentials.decoy, find_token)


class _Credentials:
    """SCRAM credentials and delegation tokens as the records of the log say, committed ones only."""

    def __init__(self, image: Callable[[], Image], token_key: Secret | None) -> None:
        self._image = image
        self._token_key = token_key
        # Working one out takes some ms of the processor; as in Kafka it is done once for each token and mechanism.
        self._of_tokens: dict[tuple[str, str], ScramCredential] = {}
        self.decoy: Final = secrets.token_bytes(32)

    def find(self, mechanism: int, user: str) -> ScramCredential | None:
        record = self._image().scram.get((mechanism, user))
        if record is None:
            return None
        return ScramCredential(bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)

    def find_token(self, mechanism: str, id: str) -> ScramToken | None:
        tokens, now_ms = self._image().tokens, time.time_ns() // 1_000_000
        token = tokens.get(id)
        if token is None or self._token_key is None or token.expiration_timestamp <= now_ms:
            return None
        if len(self._of_tokens) > 2 * len(tokens):
            self._of_tokens = {key: one for key, one in self._of_tokens.items() if key[0] in tokens}
        credential = self._of_tokens.get((id, mechanism))
        if credential is None:
            password = base64.b64encode(token_hmac(self._token_key, id)).decode()
            credential = self._of_tokens[id, mechanism] = scram_credential(
                mechanism, Secret(password), secrets.token_bytes(_SALT_BYTES)
            )
        owner = token.owner.partition(":")[2]
        return ScramToken(owner, credential, token.expiration_timestamp - now_ms)
