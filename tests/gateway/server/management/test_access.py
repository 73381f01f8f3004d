"""The token, the hosts and the origins of requests to the management port."""

from __future__ import annotations

import pytest

from gateway.config.config import ConfigError
from gateway.server.management.access import management_token
from tests.gateway.server.harness import run
from tests.gateway.server.management.http_client import PAGES, Client, Reply, served
from tests.gateway.server.management.served_page import page

TOKEN = "a-token-of-32-characters-or-more"
BEARER = f"Authorization: Bearer {TOKEN}"
PATHS = [*PAGES, "/", "/page.js", "/api/now", "/api/state", "/nothing"]
#: Paths that probes may ask for without the token.
PROBES = ("/livez", "/readyz")


def replies(
    *requests: tuple[str, ...], token: str | None = TOKEN, host: str = "127.0.0.1"
) -> list[Reply]:
    """Ask (path, headers...), each in a connection of its own."""
    found = []

    async def main() -> None:
        async with served(token=token, page=page(), host=host) as port:
            for path, *headers in requests:
                async with port.client() as client:
                    found.append(await client.get(path, *headers))

    run(main)
    return found


def test_without_the_token_every_path_is_401_but_probes() -> None:
    found = dict(zip(PATHS, replies(*((path,) for path in PATHS)), strict=True))
    assert {path for path, reply in found.items() if reply.status != 401} == set(PROBES)
    for path, reply in found.items():
        assert b"7QN8irUjSqO4QGNDS7ESyw" not in reply.body, path
        if path not in PROBES:
            assert reply.headers["www-authenticate"] == "Bearer"
    assert found["/readyz"].json == {"ready": True}


@pytest.mark.parametrize(
    "header",
    [
        f"Authorization: Bearer {TOKEN}x",
        f"Authorization: Bearer {TOKEN[:-1]}",
        "Authorization: Bearer ",
        f"Authorization: Basic {TOKEN}",
        f"Authorization: {TOKEN}",
        f"Cookie: kwire-1={TOKEN}",
        "Cookie: ; =; kwire",
    ],
)
def test_another_token_is_401(header: str) -> None:
    assert [one.status for one in replies(("/status", header), ("/", header))] == [401, 401]


def test_with_the_token_every_path_is_served() -> None:
    found = replies(*((path, BEARER) for path in PATHS))
    assert [one.status for one in found] == [200] * (len(PATHS) - 1) + [404]
    assert replies(("/status", BEARER.replace("Bearer", "bearer")))[0].status == 200


def test_browser_gets_a_form_and_logs_in_with_it() -> None:
    async def main() -> None:
        async with served(token=TOKEN, page=page()) as port, port.client() as client:
            origin = f"http://127.0.0.1:{port.number}"
            form = await client.get("/", "Accept: text/html,*/*")
            assert form.status == 401 and b'action="/login"' in form.body
            assert "script" not in form.body.decode()
            assert "default-src 'none'" in form.headers["content-security-policy"]
            wrong = await post(client, origin, b"token=wrong")
            assert (wrong.status, "set-cookie" in wrong.headers) == (401, False)
            reply = await post(client, origin, b"token=" + TOKEN.encode())
            assert (reply.status, reply.headers["location"]) == (303, "/")
            cookie, *rules = reply.headers["set-cookie"].split("; ")
            assert rules == ["Path=/", "HttpOnly", "SameSite=Strict"]
            assert TOKEN not in cookie
            shown = await client.get("/", f"Cookie: other=1; {cookie}")
            assert shown.status == 200

    run(main)


async def post(client: Client, origin: str, body: bytes, path: str = "/login") -> Reply:
    """Send a form as a page of ``origin`` does."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {origin.removeprefix('http://')}\r\nOrigin: {origin}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    await client.send(head.encode() + body)
    return await client.reply()


@pytest.mark.parametrize("body", [b"", b"x=1", b"token=a&token=b", b"\xff" * 100, b"token=" * 999])
def test_other_forms_do_not_log_in(body: bytes) -> None:
    async def main() -> None:
        async with served(token=TOKEN) as port, port.client() as client:
            reply = await post(client, f"http://127.0.0.1:{port.number}", body)
            assert reply.status in (401, 413) and "set-cookie" not in reply.headers

    run(main)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://localhost:1", "file://"]
)
@pytest.mark.parametrize("path", ["/metrics", "/", "/api/now"])
def test_foreign_origin_is_403(path: str, origin: str) -> None:
    (reply,) = replies((path, f"Origin: {origin}", BEARER))
    assert reply.status == 403
    assert not any(name.startswith("access-control") for name in reply.headers)


#: Headers of a browser for a link that its user followed, and for what a page loads.
LINK = ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
IMAGE = ("Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image")
FRAME = ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("how", [IMAGE, FRAME, ()])
@pytest.mark.parametrize("path", ["/api/state?at=5", "/api/now", "/metrics", "/", "/page.js"])
def test_request_that_a_page_of_another_site_makes_is_403(
    path: str, how: tuple[str, ...], site: str
) -> None:
    (reply,) = replies((path, f"Sec-Fetch-Site: {site}", *how), token=None)
    assert reply.status == 403


@pytest.mark.parametrize(
    ("path", "status"), [("/", 200), ("/status", 200), ("/api/state", 403), ("/api/now", 403)]
)
def test_link_of_another_site_leads_to_pages_alone(path: str, status: int) -> None:
    (reply,) = replies((path, "Sec-Fetch-Site: cross-site", *LINK), token=None)
    assert reply.status == status


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_own_requests_of_a_browser_are_served(site: str) -> None:
    (reply,) = replies(("/api/now", f"Sec-Fetch-Site: {site}", *IMAGE), token=None)
    assert reply.status == 200


def test_own_origin_is_served_and_no_response_allows_others() -> None:
    for reply in replies(("/", "Origin: http://localhost"), ("/api/now",), token=None):
        assert reply.status == 200
        assert not any(name.startswith("access-control") for name in reply.headers)


def test_foreign_host_is_403_for_the_page() -> None:
    async def main() -> None:
        async with served(page=page()) as port, port.client() as client:
            for path in ("/", "/api/now", "/page.js"):
                await client.send(f"GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n".encode())
                assert (await client.reply()).status == 403

    run(main)


def test_page_beyond_loopback_needs_a_token() -> None:
    for path in ("/", "/api/now"):
        (reply,) = replies((path,), token=None, host="0.0.0.0")
        assert reply.status == 403 and b"management.token" in reply.body
    assert replies(("/livez",), token=None, host="0.0.0.0")[0].status == 200
    assert replies(("/", BEARER), host="0.0.0.0")[0].status == 200


@pytest.mark.parametrize("token", ["", "short", "with blanks in its middle", "ü" * 20, "x" * 600])
def test_bad_token_is_refused_at_the_start(token: str) -> None:
    with pytest.raises(ConfigError, match=r"management\.token"):
        management_token({"management.token": token})


def test_token_is_optional() -> None:
    assert management_token({}) is None
    assert management_token({"management.token": TOKEN}) == TOKEN
