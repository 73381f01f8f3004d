"""Where the shared test material is: bytes and logs of real Kafka, beside the repository or where
KWIRE_SHARED says.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.archives import extract

SHARED = Path(
    os.environ.get("KWIRE_SHARED") or Path(__file__).resolve().parent.parent.parent / "shared"
)
LOG_NAMES = (
    "p-abort",
    "p-large",
    "p-old",
    "p-one-basic",
    "p-one-segments",
    "p-quorum",
    "p-quorum-short",
    "p-upgrade",
)

needs_shared = pytest.mark.skipif(
    not (SHARED / "vectors").is_dir(),
    reason=f"the shared vectors and logs of real Kafka are not at {SHARED}; set KWIRE_SHARED",
)


def vectors(name: str, kafka: str = "4.4.0") -> Iterator[dict[str, Any]]:
    """The lines of one vector file. Split on newlines only: strings hold other line separators."""
    with lzma.open(
        SHARED / "vectors" / kafka / f"{name}.jsonl.xz", "rt", encoding="utf-8"
    ) as lines:
        for line in lines:
            yield json.loads(line)


def unpack_log(name: str, into: Path) -> Path:
    """Unpack one of the logs; returns its directory, which holds nodes/ and truth/."""
    target = into / name
    if not target.is_dir():
        extract(SHARED / "logs" / f"{name}.tar.xz", into)
    return target


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``logs("p-large")`` is the unpacked directory, once a session."""
    root = tmp_path_factory.mktemp("logs")
    return lambda name: unpack_log(name, root)


def mistyped(value: object) -> Any:
    """``value``, for a parameter whose type does not allow it."""
    return value
