"""Reads the files of the page from the package, for the server and for a report.

The page loads nothing but its own style and script. A report has both inside, with the data of a
log, and a policy that allows this one script alone.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import zlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple

HTML, CSS, JS = "page.html", "page.css", "page.js"
_TYPES: Final = {
    HTML: "text/html; charset=utf-8",
    CSS: "text/css; charset=utf-8",
    JS: "text/javascript; charset=utf-8",
}
_STYLE_LINK: Final = '<link rel="stylesheet" href="page.css">'
_SCRIPT_LINK: Final = '<script src="page.js" defer></script>'
#: The policy of the served page: its own files, and requests to its own server.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Asset(NamedTuple):
    """A file of the page. ``etag`` changes with the content."""

    content_type: str
    data: bytes
    etag: str


@functools.cache
def asset(name: str) -> Asset:
    """Return one of ``HTML``, ``CSS`` and ``JS``."""
    data = files(__package__).joinpath("static", name).read_bytes()
    return Asset(_TYPES[name], data, f'"{hashlib.sha256(data).hexdigest()[:32]}"')


def report_html(facts: Mapping[str, Any], packed: Mapping[str, bytes]) -> str:
    """Return the page as one file that shows a log without a server.

    ``facts`` is shown as the served page shows the answer of ``/api/now``. ``packed`` are texts
    that the script unpacks when it needs them.
    """
    style, script = (asset(name).data.decode("utf-8") for name in (CSS, JS))
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}';"
        f" style-src 'sha256-{_hash(style)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = "".join(
        f'<script type="application/octet-stream" id="data-{name}">{_packed(text)}</script>\n'
        for name, text in {"facts": json.dumps(facts).encode(), **packed}.items()
    )
    html = asset(HTML).data.decode("utf-8")
    assert html.count(_STYLE_LINK) == html.count(_SCRIPT_LINK) == 1
    html = html.replace(
        _STYLE_LINK,
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><style>{style}</style>',
    )
    # The script comes last: it begins when the elements before it are there.
    return html.replace(_SCRIPT_LINK, "").replace(
        "</body>", f"{data}<script>{script}</script>\n</body>"
    )


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
