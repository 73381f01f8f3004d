"""What stands between a listener and its requests: TLS, and who a peer is. Made once a listener
from what was configured.
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

from gateway.security.delegation_tokens import token_hmac
from gateway.security.principal_rules import PrincipalRules
from gateway.security.sasl_server import PLAIN, PlainServer
from gateway.security.sasl_session import Mechanism, SaslSession
from gateway.security.scram_decoys import Form, ScramDecoys, form_of
from gateway.security.scram_server import (
    MECHANISM_NUMBERS,
    ScramCredential,
    ScramServer,
    ScramToken,
    scram_credential,
)
from gateway.security.secret import Secret
from gateway.security.ssl_principal import ANONYMOUS, distinguished_name
from gateway.server.tls import server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.security.listeners import ListenerSecurity
    from gateway.security.sasl_server import SaslServer
    from kwire.cluster.image import Image

_NONCE_BYTES: Final = 24
#: How long it may take until decoys follow the form of the credentials that exist, s.
_FORM_S: Final = 10.0
#: Credentials of all mechanisms among which those of one are looked for.
_LOOKED_AT_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class ListenerAuth:
    """One listener's. ``tls``: None without it. ``mechanisms``: of SASL, None without it. ``rules``
    make names of subjects.
    """

    tls: ssl.SSLContext | None = None
    mechanisms: Mapping[str, Mechanism] | None = None
    rules: PrincipalRules = field(default_factory=PrincipalRules)

    def session(self) -> SaslSession | None:
        """The authentication of a new connection, if one is wanted."""
        return None if self.mechanisms is None else SaslSession(self.mechanisms)

    def principal(self, certificate: bytes | None) -> str:
        """Who showed this certificate (DER), before anything else was said. Raises ValueError where
        no rule names it.
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
    """By listener, those that need one. ``image``: whose SCRAM credentials and delegation tokens
    hold, these with ``token_key``.

    ``cluster_id`` is asked at the first login. Takes ms: keys are loaded. Raises ssl.SSLError and
    OSError.
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
    """The form of the credentials of one mechanism, when it was found and among how many."""

    counted_at: float
    users: int
    form: Form


class _Credentials:
    """SCRAM credentials and delegation tokens as the records of the log say, committed ones only."""

    def __init__(
        self, image: Callable[[], Image], token_key: Secret | None, cluster_id: Callable[[], str]
    ) -> None:
        self._image = image
        self._token_key = token_key
        self._cluster_id = cluster_id
        self._decoys: ScramDecoys | None = None
        self._forms: dict[int, _Counted] = {}
        # Working one out takes some ms of the processor; as in Kafka it is done once for each token
        # and mechanism.
        self._of_tokens: dict[tuple[str, str], ScramCredential] = {}

    def decoy(self, mechanism: str, name: str, by_token: bool) -> ScramCredential:
        """What a client is shown where neither a user nor, ``by_token``, a delegation token has
        this name.
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
        """How most credentials of this mechanism look; counted again when there are more or fewer,
        and every ``_FORM_S``.
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
                mechanism, Secret(password), self._shared_decoys().token(mechanism, id).salt
            )
        owner = token.owner.partition(":")[2]
        return ScramToken(owner, credential, token.expiration_timestamp - now_ms)
