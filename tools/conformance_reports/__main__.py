"""Writes ``docs/conformance-servers.md`` or ``docs/conformance-clients.md``.

    python -m tools.conformance_reports servers             # every server; takes some minutes
    python -m tools.conformance_reports clients kcat java   # only these, to standard output

Needs the extra ``test``, Java and Maven; Go for kfake, franz-go and Sarama, Node and npm for
KafkaJS, kcat for itself. It ends with status 1 if a server or client does not keep a rule for which
there is no explanation: the pages list nothing that was not looked into.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tools.conformance_reports import clients, servers

_PAGES = {"servers": servers.main, "clients": clients.main}


def main(words: Sequence[str]) -> int:
    """Write the page that the first word names, of the names behind it or of all."""
    if not words or words[0] not in _PAGES:
        print(
            "usage: python -m tools.conformance_reports servers|clients [NAME ...]", file=sys.stderr
        )
        return 2
    return _PAGES[words[0]](words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
