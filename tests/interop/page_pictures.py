"""Writes pictures of the page over a log directory.

python -m tests.interop.page_pictures LOG_DIR docs
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.interop.browser import browser
from tests.interop.page_view import once, url, wait_for_all
from tools.gateway_process import gateway

_WIDTH: Final = 1000
_SCALE: Final = 0.8
#: A change of a partition while a broker is away.
_CHANGE: Final = """
timeline.found.findIndex(i => changes.op[i] === 1 && now.kinds[changes.kind[i]] === "partition"
  && changes.time[i] >= [...changes.replicas.partitions.values()][0].changes[0][0])
"""


def write_pictures(directory: Path, where: Path) -> None:
    """Write page-timeline.png and page-replicas.png into ``where``."""
    arguments = ["--source", "log", "--log-dir", str(directory)]
    with (
        browser() as chromium,
        gateway(*arguments, "--management-listener", "127.0.0.1:0") as server,
    ):
        chromium.open(url(server, "#view=timeline"), width=_WIDTH)
        wait_for_all(chromium)
        once(chromium, "timeline.found.length === changes.count")
        chromium.evaluate("document.getElementById('list').style.height = '168px'")
        chromium.evaluate(f"select({_CHANGE})")
        once(chromium, "document.querySelector('#detail table') !== null")
        chromium.screenshot(where / "page-timeline.png", height=860, scale=_SCALE)
        chromium.open(url(server, "#view=replicas"), width=_WIDTH)
        once(chromium, "document.querySelectorAll('#heat canvas').length > 0")
        chromium.screenshot(where / "page-replicas.png", height=720, scale=_SCALE)


if __name__ == "__main__":
    write_pictures(Path(sys.argv[1]), Path(sys.argv[2]))
