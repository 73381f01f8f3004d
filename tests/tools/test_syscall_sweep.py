"""The sweep tells faults that must end the process from those that a node survives."""

from __future__ import annotations

import pytest

from tools.syscall_sweep import was_struck

_LOG = "</data/__cluster_metadata-0/00000000000000000000.log>"
_AUDIT = "</data/__cluster_metadata_audit~local-0/00000000000000000000.log>"
_FAILED = "= -1 EIO (Input/output error) (INJECTED)"


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        ("", False),
        (f'7 pwrite64(13{_LOG}, "", 178, 2604) = 178', False),
        (f'7 pwrite64(13{_LOG}, "", 178, 2604) {_FAILED}', True),
        (f'7 pwrite64(13{_AUDIT}, "", 178, 2604) {_FAILED}', False),
        (f"7 fsync(9</state/1.offsets>) {_FAILED}", False),
        (f"7 pwrite64(13{_AUDIT} {_FAILED}\n8 fdatasync(13{_LOG}) {_FAILED}", True),
        (f"7 fsync(13{_LOG} <unfinished ...>\n7 <... fsync resumed>) {_FAILED}", True),
        (
            f"7 fsync(13{_AUDIT} <unfinished ...>\n8 fsync(13{_LOG}) = 0\n"
            f"7 <... fsync resumed>) {_FAILED}",
            False,
        ),
        ("7 +++ killed by SIGKILL +++", True),
        (f"7 fsync(13{_LOG}) = 0 (DELAYED)", True),
    ],
)
def test_only_faults_that_must_end_the_process_count(trace: str, expected: bool) -> None:
    assert was_struck(trace) is expected
