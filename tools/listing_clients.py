"""Runs clients that ask for the Metadata of all topics again and again: ``python -m
tools.listing_clients SECONDS COUNT HOST:PORT ...``.

``COUNT`` clients are spread over the addresses. They are a process of their own, so that reading
the answers costs the caller no time. At the end the program prints one line of JSON: the
number of answers and the size of the shortest answer, bytes, of each client.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from kwire.messages.metadata_request import MetadataRequest
from tools.process import ProcessError
from tools.wire_client import WireClient

_VERSION = 12
_TIMEOUT_S = 300.0


def list_until(address: str, ends_at: float) -> tuple[int, int]:
    """List all topics at ``address`` until the clock passes ``ends_at``, at least once. Return the
    number of answers, and the size of the shortest one.
    """
    sizes: list[int] = []
    with WireClient(address, _TIMEOUT_S) as client:
        while not sizes or time.monotonic() < ends_at:
            sizes.append(client.size_of_answer(MetadataRequest(topics=None), _VERSION))
    return len(sizes), min(sizes)


def list_everything(seconds: float, count: int, addresses: list[str]) -> list[tuple[int, int]]:
    """Run the program until its end; the number of answers and the size of the shortest one of each
    client. Raises ProcessError.
    """
    line = [sys.executable, "-m", __name__, str(seconds), str(count), *addresses]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProcessError(f"clients that list all topics failed:\n{done.stderr}")
    return [(answers, size) for answers, size in json.loads(done.stdout)]


def main(seconds: float, count: int, addresses: list[str]) -> None:
    ends_at = time.monotonic() + seconds
    with ThreadPoolExecutor(count) as clients:
        found = clients.map(
            lambda number: list_until(addresses[number % len(addresses)], ends_at), range(count)
        )
        print(json.dumps(list(found)), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
