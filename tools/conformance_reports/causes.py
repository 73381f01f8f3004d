"""Explains the rules that a server does not keep, for ``tools.conformance_reports``: one
cause for all rules that the same fault breaks, with the other program by which the fault was
repeated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from kwire.conformance.outcome import Result


@dataclass(frozen=True)
class Cause:
    """A fault of a server.

    ``rules`` are patterns of ids, with spaces between; ``said`` is a regular expression that is
    found in the result's sentence. ``says`` and ``repeated`` are Markdown.
    """

    rules: str
    says: str
    repeated: str
    said: str = ""

    def explains(self, result: Result) -> bool:
        """Whether the result comes from this fault."""
        return any(fnmatchcase(result.rule.id, one) for one in self.rules.split()) and bool(
            re.search(self.said, result.sentence)
        )


BYTES: Final = "the bytes, sent by a Python socket:"
FRAMES: Final = "with frames of kafka-python's codec:"
OLD_CLIENTS: Final = "versions for clients of before Kafka 4.0 (KIP-896) are served"
