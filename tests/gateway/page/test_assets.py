"""The files of the page: their size, and their rules."""

from __future__ import annotations

import re

from gateway.page.assets import CSS, HTML, JS, asset, report_html

#: The limit of the page, bytes.
SIZE_MAX = 200_000


def test_page_is_small_and_loads_nothing_from_elsewhere() -> None:
    texts = {name: asset(name).data.decode() for name in (HTML, CSS, JS)}
    assert sum(map(len, texts.values())) < SIZE_MAX
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(", "".join(texts.values()))
    links = re.findall(r'(?:src|href)="([^"]*)"', texts[HTML])
    assert [one for one in links if not one.startswith("#view=")] == ["data:,", CSS, JS]


def test_script_never_makes_markup_of_text() -> None:
    script = asset(JS).data.decode()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(", script
    )
    assert not re.search(r"""\son[a-z]+="|style=""", asset(HTML).data.decode())


def test_report_has_everything_inside_and_a_policy() -> None:
    html = report_html({"cluster": "</script><b>"}, {"rows": b"<script>"})
    assert f'"{CSS}"' not in html and '"page.js"' not in html
    assert "default-src 'none'; script-src 'sha256-" in html
    assert "</script><b>" not in html and html.count("<script>") == 1
