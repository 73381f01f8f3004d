"""Makes the security of a listener: its TLS context and its SASL mechanisms.

It does not run an authentication: ``SaslSession`` does, with the mechanisms made here.
"""

from __future__ import annotations

import base64
import secrets
import ssl
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.base.wall_clock import wall_ms
from gateway.security.delegation_tokens import token_hmac
from gateway.security.principal_rules import PrincipalRules
from gateway.security.sasl_server import PLAIN, PlainServer
from gateway.security.sasl_session import Mechanism, SaslSession
from gateway.security.scram import MECHANISM_NUMBERS
from gateway.security.scram_decoys import Form, ScramDecoys, form_of
from gateway.security.scram_server import (
    ScramCredential,
    ScramServer,
    ScramToken,
    scram_credential,
)
from gateway.security.secret import Secret
from gateway.security.ssl_principal import ANONYMOUS, distinguished_name
from gateway.server.node_client.tls import server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.security.listeners import ListenerSecurity
    from gateway.security.sasl_server import SaslServer
    from kwire.cluster.image import Image

_NONCE_BYTES: Final = 24
#: Interval at which decoys are adapted to the form of the existing credentials, s.
_FORM_S: Final = 10.0
#: Most credentials that are examined for that form.
_LOOKED_AT_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class ListenerAuth:
    """The security of one listener.

    ``tls``: None without TLS. ``mechanisms``: by name, None without SASL. ``rules`` map the subject
    of a certificate to a name (``ssl.principal.mapping.rules``).
    """

    tls: ssl.SSLContext | None = None
    mechanisms: Mapping[str, Mechanism] | None = None
    rules: PrincipalRules = field(default_factory=PrincipalRules)

    def session(self) -> SaslSession | None:
        """The authentication of a new connection; None without SASL."""
        return None if self.mechanisms is None else SaslSession(self.mechanisms)

    def principal(self, certificate: bytes | None) -> str:
        """The principal of a peer with this certificate (DER), before it authenticates by SASL.

        Raises ValueError if no rule matches the certificate's subject.
        """
        if certificate is None or self.mechanisms is not None:
            return ANONYMOUS
        return f"User:{self.rules.name(distinguished_name(certificate))}"


def listener_auths_of(
    listeners: Mapping[str, ListenerSecurity],
    image: Callable[[], Image],
    token_key: Secret | None = None,
    cluster_id: Callable[[], str] = str,
) -> dict[str, ListenerAuth]:
    """The security of each listener that is not PLAINTEXT, by name. Raises ssl.SSLError, OSError.

    SCRAM credentials and delegation tokens are those of ``image``; ``token_key`` verifies the
    tokens. ``cluster_id`` is called at the first login. Loading keys takes some ms.
    """
    credentials = _Credentials(image, token_key, cluster_id)
    return {
        name: _listener_auth(one, credentials)
        for name, one in listeners.items()
        if one.protocol != "PLAINTEXT"
    }


def _listener_auth(security: ListenerSecurity, credentials: _Credentials) -> ListenerAuth:
    tls = None if security.tls is None else server_context(security.tls, security.client_auth)
    if security.mechanisms is None:
        return ListenerAuth(tls, rules=security.rules)
    made = {
        name: Mechanism(_maker(name, security, credentials), max_reauth_ms)
        for name, max_reauth_ms in security.mechanisms.items()
    }
    return ListenerAuth(tls, made)


def _maker(
    mechanism: str, security: ListenerSecurity, credentials: _Credentials
) -> Callable[[], SaslServer]:
    if mechanism == PLAIN:
        return lambda: PlainServer(security.passwords)
    find, find_token = (
        partial(credentials.find, MECHANISM_NUMBERS[mechanism]),
        partial(credentials.find_token, mechanism),
    )
    decoy = partial(credentials.decoy, mechanism)
    return lambda: ScramServer(
        mechanism, find, secrets.token_urlsafe(_NONCE_BYTES), decoy, find_token
    )


class _Counted(NamedTuple):
    """The form of one mechanism's credentials, with the time of the count and the users then."""

    counted_at: float
    users: int
    form: Form


class _Credentials:
    """SCRAM credentials and delegation tokens of the committed image."""

    def __init__(
        self, image: Callable[[], Image], token_key: Secret | None, cluster_id: Callable[[], str]
    ) -> None:
        self._image = image
        self._token_key = token_key
        self._cluster_id = cluster_id
        self._decoys: ScramDecoys | None = None
        self._forms: dict[int, _Counted] = {}
        # A credential takes some ms to compute; as in Kafka, it is computed once for each token
        # and mechanism.
        self._of_tokens: dict[tuple[str, str], ScramCredential] = {}

    def decoy(self, mechanism: str, name: str, by_token: bool) -> ScramCredential:
        """The credential for a name that no user has, or (``by_token``) no delegation token.

        With it the exchange continues to its end, so that a client cannot find out which names
        exist.
        """
        decoys = self._shared_decoys()
        if by_token:
            return decoys.token(mechanism, name)
        return decoys.user(mechanism, name, self._form(MECHANISM_NUMBERS[mechanism]))

    def _shared_decoys(self) -> ScramDecoys:
        if self._decoys is None:
            self._decoys = ScramDecoys(self._token_key, self._cluster_id())
        return self._decoys

    def _form(self, mechanism: int) -> Form:
        """The form that most credentials of this mechanism have.

        It is counted again when the number of credentials changes, and every ``_FORM_S``.
        """
        now, scram = time.monotonic(), self._image().scram
        found = self._forms.get(mechanism)
        if found is None or found.users != len(scram) or now - found.counted_at >= _FORM_S:
            some = islice(scram.items(), _LOOKED_AT_MAX)
            found = _Counted(
                now,
                len(scram),
                form_of(record for (number, _), record in some if number == mechanism),
            )
            self._forms[mechanism] = found
        return found.form

    def find(self, mechanism: int, user: str) -> ScramCredential | None:
        record = self._image().scram.get((mechanism, user))
        if record is None:
            return None
        return ScramCredential(
            bytes(record.salt),
            bytes(record.stored_key),
            bytes(record.server_key),
            record.iterations,
        )

    def find_token(self, mechanism: str, id: str) -> ScramToken | None:
        tokens, now_ms = self._image().tokens, wall_ms()
        token = tokens.get(id)
        if token is None or self._token_key is None or token.expiration_timestamp <= now_ms:
            return None
        if len(self._of_tokens) > 2 * len(tokens):
            self._of_tokens = {key: one for key, one in self._of_tokens.items() if key[0] in tokens}
        credential = self._of_tokens.get((id, mechanism))
        if credential is None:
            password = base64.b64encode(token_hmac(self._token_key, id)).decode()
            credential = self._of_tokens[id, mechanism] = scram_credential(
                mechanism, Secret(password), self._shared_decoys().token(mechanism, id).salt
            )
        owner = token.owner.partition(":")[2]
        return ScramToken(owner, credential, token.expiration_timestamp - now_ms)
