"""Hold idle connections until standard input ends: ``python -m tests.hostile.crowd PORT COUNT``.

It is a process of its own, so that both ends of ten thousand connections do not count against one
limit of open files.
"""

from __future__ import annotations

import resource
import socket
import sys


def main(port: int, count: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    print(len(sockets), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
