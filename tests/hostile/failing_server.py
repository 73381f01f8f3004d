"""``python -m tests.hostile.failing_server PYTHON -c CODE serve --config FILE``: a server on a
machine that can fail (``tools/failing_server.py``), whose work is counted (``counted_server.py``).

:data:`BEFORE` is for ``tools.own_quorum``.
"""

from __future__ import annotations

import sys
from typing import Final

from tests.hostile.counted_server import serve
from tools.failing_server import prepare

#: The program that runs each node.
BEFORE: Final = (sys.executable, "-m", "tests.hostile.failing_server")


if __name__ == "__main__":
    serve(prepare(sys.argv))
