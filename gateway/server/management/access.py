"""Decides which requests to the management port are answered: by host, origin and token.

A web page of another origin reads nothing here: its requests carry its ``Origin``, or the name that
it makes resolve to this machine (``gateway.server.management.http_hosts``). Nor does it make the
server work: browsers mark what it loads with ``Sec-Fetch-Site`` (Fetch Metadata). A link that leads
here from it is followed, but to the paths of the page's script. The token comes in ``Authorization:
Bearer``, or as the cookie that the login form sets. The cookie holds no token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from gateway.base.address import shown
from gateway.config.config import ConfigError
from gateway.server.management.http_connections import Answer, RequestBody

if TYPE_CHECKING:
    from collections.abc import Mapping

    import h11

    from gateway.server.management.http_hosts import AllowedHosts

#: The key of the token, which is in the file or the environment only.
TOKEN_KEY: Final = "management.token"
LOGIN_PATH: Final = "/login"
_TOKEN: Final = re.compile(r"[!-~]{16,512}")
_FORM_BYTES_MAX: Final = 4096
_FOREIGN_HOST: Final = (
    b"The host %s is not served here: ask for an IP address or localhost, or name the host in"
    b" management.allowed.hosts.\n"
)
_FOREIGN_ORIGIN: Final = b"Requests of pages of other servers are not answered here.\n"
#: Values of ``Sec-Fetch-Site`` for other origins; another port of this host is the same site.
_ELSEWHERE: Final = ("cross-site", "same-site")
#: The form of a browser that has no cookie yet. It loads nothing.
_FORM: Final = b"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>kwire: log in</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
</head><body><form method="post" action="/login">
<p><label>Token of this server (<code>management.token</code>)<br>
<input type="password" name="token" autocomplete="current-password" autofocus required></label>
<button>Log in</button></p></form></body></html>
"""
_FORM_POLICY: Final = (
    "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def management_token(security: Mapping[str, str]) -> str | None:
    """Return ``management.token``; None if it is not set. Raises ConfigError."""
    token = security.get(TOKEN_KEY)
    if token is not None and not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"{TOKEN_KEY}: 16 to 512 printable characters without blanks are needed:"
            " openssl rand -hex 32 makes a token"
        )
    return token


class Access:
    """The rules of one port. Without a ``token`` every request of an allowed host is answered."""

    def __init__(self, hosts: AllowedHosts, token: str | None, port: int) -> None:
        self._hosts = hosts
        self._token = None if token is None else token.encode("ascii")
        # Cookies are sent to all ports of a host: the name keeps those of two servers apart.
        self._cookie_name = f"kwire-{port}"
        key = secrets.token_bytes(32)
        self._session = hmac.new(key, self._token or b"", hashlib.sha256).hexdigest()

    def refusal(self, request: h11.Request) -> Answer | None:
        """Return the response to a request of a foreign host or origin; None for all others."""
        host = self._hosts.refused(request)
        if host is not None:
            return Answer(403, _FOREIGN_HOST % shown(host).encode("ascii", "backslashreplace"))
        hosts = {value.lower() for value in _values(request, b"host")}
        for origin in _values(request, b"origin"):
            scheme, _, authority = origin.lower().partition("://")
            if scheme not in ("http", "https") or authority not in hosts:
                return Answer(403, _FOREIGN_ORIGIN)
        if _is_loaded_elsewhere(request):
            return Answer(403, _FOREIGN_ORIGIN)
        return None

    def is_authenticated(self, request: h11.Request) -> bool:
        """Whether a request has the token or its cookie; True where there is no token."""
        if self._token is None:
            return True
        for value in _values(request, b"authorization"):
            scheme, _, given = value.partition(" ")
            if scheme.lower() == "bearer" and self._is_token(given.strip(" \t")):
                return True
        cookies = [
            one.strip(" \t").partition("=")
            for value in _values(request, b"cookie")
            for one in value.split(";")
        ]
        return any(
            name == self._cookie_name and _same(value, self._session) for name, _, value in cookies
        )

    def unauthorized(self, request: h11.Request) -> Answer:
        """Return the response to a request without the token: a form for browsers."""
        if any("text/html" in value for value in _values(request, b"accept")):
            policy = (("Content-Security-Policy", _FORM_POLICY),)
            return Answer(401, _FORM, "text/html; charset=utf-8", policy)
        return Answer(
            401,
            b"Give the token of this server: Authorization: Bearer TOKEN (management.token).\n",
            more=(("WWW-Authenticate", "Bearer"),),
        )

    async def log_in(self, request: h11.Request, body: RequestBody) -> Answer:
        """Return the response to the form: the cookie, and the way to the page."""
        form = await body.read(_FORM_BYTES_MAX)
        if form is None:
            return Answer(413, b"The form is too large, or came too slowly.\n")
        fields = parse_qs(form.decode("latin-1"), max_num_fields=1) if form.count(b"&") < 1 else {}
        if self._token is None or not any(map(self._is_token, fields.get("token", ()))):
            return self.unauthorized(request)
        cookie = f"{self._cookie_name}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        return Answer(303, b"", more=(("Location", "/"), ("Set-Cookie", cookie)))

    def _is_token(self, given: str) -> bool:
        return self._token is not None and _same(given, self._token.decode("ascii"))


def _is_loaded_elsewhere(request: h11.Request) -> bool:
    """Whether a browser makes this request for a page of another origin, and not since its user
    came here by a link.
    """
    if not any(site in _ELSEWHERE for site in _values(request, b"sec-fetch-site")):
        return False
    is_link = _values(request, b"sec-fetch-mode") == ["navigate"] and (
        _values(request, b"sec-fetch-dest") == ["document"]
    )
    return not is_link or request.target.startswith(b"/api/")


def _values(request: h11.Request, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in request.headers if name == wanted]


def _same(given: str, wanted: str) -> bool:
    """Compare in a time that does not depend on ``given``."""
    return hmac.compare_digest(given.encode("utf-8"), wanted.encode("utf-8"))
