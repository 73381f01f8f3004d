"""Makes TLS contexts of clients and listeners, and performs a client's handshake, with errors that
say what to do.

Python's ``ssl`` loads a private key from a file only. The key is therefore written to a temporary
directory of mode 0700, encrypted under a password that is used once, and deleted before the first
connection.
"""

from __future__ import annotations

import functools
import secrets
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from gateway.security.client_tls import ENDPOINT_IDENTIFICATION
from gateway.server.node_client.errors import TlsFailed, short

if TYPE_CHECKING:
    from gateway.security.client_tls import TlsSettings
    from gateway.security.key_stores import KeyPair

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

# X509_V_ERR_... of OpenSSL, and what to do about each.
_VERIFICATION: Final = {
    **dict.fromkeys(
        (2, 18, 19, 20, 21), "put the certificate of its CA into ssl.truststore.location"
    ),
    **dict.fromkeys((9, 10), "its certificate needs renewing, or a clock is wrong"),
    **dict.fromkeys(
        (62, 64),
        f"connect by a name that is in its certificate; {ENDPOINT_IDENTIFICATION} set to nothing "
        "would check no name at all",
    ),
}
_NO_TLS: Final = (
    "does this listener speak TLS? If not, security.protocol is PLAINTEXT or SASL_PLAINTEXT"
)
_ENDED: Final = (
    f"{_NO_TLS}; if it does, is it a version of ssl.enabled.protocols? Does it want a client "
    "certificate (ssl.keystore.location)?"
)
# Parts of OpenSSL's reasons, and what to do about each.
_REASONS: Final = (
    ("WRONG_VERSION_NUMBER", _NO_TLS),
    ("UNEXPECTED_EOF", f"{_NO_TLS}; if it does, is it a version of ssl.enabled.protocols?"),
    ("PROTOCOL_VERSION", "ssl.enabled.protocols has none that the node has too"),
    ("UNSUPPORTED_PROTOCOL", "ssl.enabled.protocols has none that the node has too"),
    (
        "HANDSHAKE_FAILURE",
        "the node and this server have no cipher, signature or version in common, or it wants a "
        "client certificate",
    ),
    (
        "CERTIFICATE",
        "the node wants a client certificate that it trusts (ssl.client.auth=required): see "
        "ssl.keystore.location",
    ),
    ("UNKNOWN_CA", "the node does not trust the client certificate in ssl.keystore.location"),
)


@functools.lru_cache(maxsize=8)
def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the client context for ``settings``, which were checked when they were read.

    Takes tens of ms the first time, because OpenSSL reads files. Raises ssl.SSLError and OSError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[settings.protocols[0]]
    context.maximum_version = _VERSIONS[settings.protocols[-1]]
    context.check_hostname = settings.check_host_name
    context.verify_mode = ssl.CERT_REQUIRED
    _verify_as_java_does(context)
    if settings.trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        context.load_verify_locations(cadata=settings.trusted)
    if settings.own is not None:
        _load_own(context, settings.own)
    return context


#: ``ssl.client.auth``.
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def _verify_as_java_does(context: ssl.SSLContext) -> None:
    """Certificates are checked as Java's default trust manager checks them.

    Any certificate of a trust store ends a chain, not only a self-signed one. RFC 5280 is not
    enforced to the letter: Python 3.13 begins to do so (VERIFY_X509_STRICT, in
    ``ssl.create_default_context``), and would refuse self-made certificates without an authority
    key identifier, which Java accepts and which clusters therefore use.
    """
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT


def server_context(settings: TlsSettings, client_auth: str) -> ssl.SSLContext:
    """Return the context of a listener. ``settings`` have a key: that was checked when they were
    read.

    ``client_auth`` is the value of ``ssl.client.auth``: none, requested or required. Raises
    ssl.SSLError and OSError.
    """
    assert settings.own is not None, "a listener without a key"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.protocols[0]]
    context.maximum_version = _VERSIONS[settings.protocols[-1]]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _CLIENT_AUTH[client_auth]
    _verify_as_java_does(context)
    if settings.trusted is not None:
        context.load_verify_locations(cadata=settings.trusted)
    _load_own(context, settings.own)
    return context


async def secure(
    stream: trio.SocketStream, settings: TlsSettings, host: str, who: str
) -> trio.SSLStream[trio.SocketStream]:
    """Perform the TLS handshake with the node ``host`` over ``stream``, and check its certificate.

    Raises TlsFailed; the caller then closes ``stream``.
    """
    try:
        context = await trio.to_thread.run_sync(client_context, settings)
        secured = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
        await secured.do_handshake()
    except trio.BrokenResourceError as error:
        raise tls_failure(who, error.__cause__, "the TLS handshake failed") from None
    except (ssl.SSLError, OSError, ValueError) as error:  # ValueError: a host that cannot be a name
        raise TlsFailed(who, f"no TLS with these settings: {short(error)}") from None
    return secured


def tls_failure(who: str, cause: BaseException | None, what: str) -> TlsFailed:
    """Return the error for ``what``, which happened because of ``cause``: an exception of ssl or
    the socket, or None if the stream ended.
    """
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = f"its certificate was refused: {cause.verify_message}"
        return TlsFailed(who, f"{what}: {why}", _VERIFICATION.get(cause.verify_code, ""))
    if not isinstance(cause, ssl.SSLError):
        return TlsFailed(who, f"{what}: it closed the connection", _NO_TLS)
    # Python before 3.11.4 raises SSLZeroReturnError for every alert, and for some other ends.
    if isinstance(cause, ssl.SSLZeroReturnError):
        return TlsFailed(who, f"{what}: it ended it", _ENDED)
    reason = (cause.reason or type(cause).__name__).upper()
    advice = next(
        (advice for part, advice in _REASONS if part in reason or part in str(cause).upper()), ""
    )
    return TlsFailed(who, f"{what}: {reason.replace('_', ' ').lower()}", advice)


def _load_own(context: ssl.SSLContext, own: KeyPair) -> None:
    from cryptography.hazmat.primitives import serialization

    password = secrets.token_bytes(32).hex()
    key = serialization.load_pem_private_key(own.key.reveal().encode(), None)
    sealed = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    with tempfile.TemporaryDirectory(prefix="kwire-") as directory:
        file = Path(directory) / "own.pem"
        file.touch(mode=0o600)
        file.write_bytes(sealed + own.chain.encode())
        context.load_cert_chain(file, password=password)
