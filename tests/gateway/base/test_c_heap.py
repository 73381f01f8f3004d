"""The blocks that the C library keeps: a page that comes from the system is a fault."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import resource
from gateway.base import c_heap

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        # As a request of 1 MiB: its bytes, its frame, its batch.
        made = [bytearray(b"x") * (1 << 20) for _ in range(3)]
        del made
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

c_heap.return_large_blocks()
returned = faults()
c_heap.keep_blocks_of_requests()
faults()
print(returned, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone has mallopt")
def test_blocks_of_requests_come_without_page_faults_where_they_are_kept() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    returned, kept = map(int, done.stdout.split())
    assert kept * 10 < returned
