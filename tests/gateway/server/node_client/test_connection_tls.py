"""TLS of a connection to a node: accepted and refused certificates, and the text of each
failure.
"""

from __future__ import annotations

import datetime
import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.security.client_properties import ClientSecurity
from gateway.security.client_tls import TlsSettings
from gateway.security.key_stores import key_pair
from gateway.server.node_client import tls
from gateway.server.node_client.connection import Upstream
from gateway.server.node_client.errors import ConnectionClosed, TimedOut, TlsFailed, UpstreamError
from tests.gateway.server.upstream_peer import Node, heartbeat, listening, polite, run
from tools.kafka_security import Authority, Identity

AUTHORITY = Authority()
NODE = AUTHORITY.issue("node")
OUTSIDER = Authority("Another CA")


def server(
    identity: Identity = NODE,
    *,
    clients: Authority | None = None,
    newest: ssl.TLSVersion | None = None,
) -> ssl.SSLContext:
    """The context of a node that shows ``identity``, and requires certificates of ``clients``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(identity.pem())
        file.flush()
        context.load_cert_chain(file.name)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.pem)
    if newest is not None:
        context.maximum_version = newest
    return context


def security(authority: Authority = AUTHORITY, **more: Any) -> ClientSecurity:
    return ClientSecurity("SSL", TlsSettings(trusted=authority.pem, **more))


def own(identity: Identity) -> object:
    return key_pair(identity.pem().encode(), "PEM", None, None)


def connects(how: ClientSecurity, context: ssl.SSLContext, host: str = "127.0.0.1") -> None:
    failed: list[UpstreamError] = []

    async def main() -> None:
        async with listening(polite, context) as peer:
            try:
                upstream = await peer.connect(how, host=host)
                assert (await upstream.call(heartbeat(5), 4, timeout_s=5)).error_code == 5
                await upstream.aclose()
            except UpstreamError as error:  # outside of the nursery, which would put it in a group
                failed.append(error)

    run(main)
    if failed:
        raise failed[0]


def refused(how: ClientSecurity, context: ssl.SSLContext, host: str = "127.0.0.1") -> str:
    with pytest.raises(TlsFailed) as caught:
        connects(how, context, host)
    return str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_certificate_of_a_trusted_authority_is_accepted(host: str) -> None:
    connects(security(), server(), host)


@pytest.mark.parametrize("identified", [False, True])
def test_certificates_with_and_without_key_identifiers_are_accepted_as_java_does(
    identified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holds also where the default contexts are strict about RFC 5280, as Python 3.13's are."""
    authority = Authority(identified=identified)
    tls.client_context.cache_clear()
    monkeypatch.setattr(tls, "ssl", StrictSsl())
    connects(
        security(authority, own=own(authority.issue("us"))),
        server(authority.issue("node"), clients=authority),
    )
    listener = tls.server_context(
        TlsSettings(trusted=authority.pem, own=own(authority.issue("node"))),  # type: ignore[arg-type]
        "required",
    )
    connects(security(authority, own=own(authority.issue("us"))), listener)


def test_strict_context_distinguishes_both_kinds_of_certificates() -> None:
    """The test above proves something only if a strict context refuses one of the kinds."""
    for identified in (False, True):
        authority = Authority(identified=identified)
        strict = ssl.create_default_context(cadata=authority.pem)
        strict.verify_flags |= ssl.VERIFY_X509_STRICT
        assert handshakes(strict, server(authority.issue("node"))) is identified


class StrictSsl:
    """The module ``ssl`` with contexts as strict as those of ``ssl.create_default_context`` of
    Python 3.13.
    """

    def __getattr__(self, name: str) -> object:
        return getattr(ssl, name)

    def SSLContext(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context


def handshakes(client: ssl.SSLContext, listener: ssl.SSLContext) -> bool:
    """True if client and server context complete a handshake, in memory."""
    sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(received, sent, server_hostname="localhost"),
        listener.wrap_bio(sent, received, server_side=True),
    ]
    for _ in range(10):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return sides[0].version() is not None


def test_trusted_leaf_certificate_is_accepted_without_its_authority() -> None:
    leaf = Identity(NODE.key, NODE.chain[:1])
    connects(ClientSecurity("SSL", TlsSettings(trusted=leaf.chain_pem())), server(leaf))


def test_untrusted_authority_is_refused() -> None:
    text = refused(security(OUTSIDER), server())
    assert "its certificate was refused" in text and "ssl.truststore.location" in text


def test_default_trust_store_refuses_a_private_authority() -> None:
    refused(ClientSecurity("SSL", TlsSettings()), server())


@pytest.mark.parametrize("names", [["elsewhere.example"], ["127.0.0.9"], []])
def test_certificate_of_another_host_is_refused(names: list[str]) -> None:
    elsewhere = server(AUTHORITY.issue("127.0.0.1", hosts=names))
    assert "ssl.endpoint.identification.algorithm" in refused(security(), elsewhere)
    connects(security(check_host_name=False), elsewhere)


def test_authority_is_checked_where_host_names_are_not() -> None:
    refused(security(OUTSIDER, check_host_name=False), server())


def test_certificate_out_of_its_time_is_refused() -> None:
    now, hour = datetime.datetime.now(datetime.UTC), datetime.timedelta(hours=1)
    old = AUTHORITY.issue("node", not_before=now - 2 * hour, not_after=now - hour)
    young = AUTHORITY.issue("node", not_before=now + hour, not_after=now + 2 * hour)
    for identity in (old, young):
        assert "needs renewing, or a clock is wrong" in refused(security(), server(identity))


def test_client_certificate_is_accepted_if_required() -> None:
    context = server(clients=AUTHORITY)
    connects(security(own=own(AUTHORITY.issue("client"))), context)
    for how in (security(), security(own=own(OUTSIDER.issue("client")))):
        with pytest.raises((TlsFailed, ConnectionClosed)) as caught:
            connects(how, context)
        assert "ssl.keystore.location" in str(caught.value)


def test_tls_versions_must_overlap() -> None:
    older = server(newest=ssl.TLSVersion.TLSv1_2)
    connects(security(), older)
    connects(security(protocols=("TLSv1.2",)), server())
    assert "ssl.enabled.protocols" in refused(security(protocols=("TLSv1.3",)), older)


def test_plaintext_listener_is_tls_failed_with_advice() -> None:
    async def closes(node: Node) -> None:
        await node.stream.receive_some(10)

    async def talks(node: Node) -> None:
        await node.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await node.stream.receive_some(10)

    async def main() -> None:
        for script in (closes, talks):
            async with listening(script) as peer:
                with pytest.raises(TlsFailed, match="does this listener speak TLS"):
                    await peer.connect(security())

    run(main)


def test_stalled_handshake_times_out() -> None:
    async def script(node: Node) -> None:
        with pytest.raises(trio.BrokenResourceError):
            while await node.stream.receive_some(10000):
                pass
            raise trio.BrokenResourceError

    async def main() -> None:
        async with listening(script) as peer:
            with pytest.raises(TimedOut, match="no end of the TLS handshake within"):
                await peer.connect(security(), timeout_s=0.2)

    run(main)


def test_private_key_is_in_no_file_after_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[str] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(context: ssl.SSLContext, file: Path, **options: Any) -> None:
        assert file.stat().st_mode & 0o077 == 0 and file.parent.stat().st_mode & 0o077 == 0
        seen.append(file.read_text())
        load(context, file, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    pair = own(AUTHORITY.issue("client"))
    tls.client_context(TlsSettings(trusted=AUTHORITY.pem, own=pair))  # type: ignore[arg-type]
    [text] = seen
    assert "BEGIN ENCRYPTED PRIVATE KEY" in text and "BEGIN PRIVATE KEY" not in text
    assert list(tmp_path.iterdir()) == []


def test_close_during_a_call_ends_the_call() -> None:
    async def silent(node: Node) -> None:
        await node.greet()
        await node.next()
        await node.next()

    async def main() -> None:
        for context, how in ((None, ClientSecurity()), (server(), security())):
            async with listening(silent, context) as peer:
                upstream = await peer.connect(how)
                said: list[str] = []

                async def ask(upstream: Upstream = upstream, said: list[str] = said) -> None:
                    try:
                        await upstream.call(heartbeat(), 4, timeout_s=5)
                    except UpstreamError as error:
                        said.append(str(error))

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ask)
                    await trio.sleep(0.05)
                    await upstream.aclose()
                assert len(said) == 1 and "HeartbeatRequest v4" in said[0]

    run(main)
