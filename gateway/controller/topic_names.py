"""Checks topic names (``Topic.validate``). It knows no cluster."""

from __future__ import annotations

import re
from typing import Final

from gateway.ports.services import AUDIT_TOPIC
from gateway.ports.view_topics import VIEW_TOPICS
from kwire.protocol import CLUSTER_METADATA_TOPIC

#: The topics that the nodes of the quorum write or derive; no client may create, change or delete
#: them.
RESERVED_TOPICS: Final = frozenset({CLUSTER_METADATA_TOPIC, AUDIT_TOPIC, *VIEW_TOPICS})
#: ``Topic.MAX_NAME_LENGTH``: a directory is called after the partition, and file names have at most
#: 255 characters.
NAME_CHARS_MAX: Final = 249
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def name_fault(name: str) -> str | None:
    """Return the reason why no topic can have this name, as a sentence; None if one can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    # They are directories that exist already.
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_CHARS_MAX:
        return (
            f"Topic name is invalid: its length is {len(name)}, {NAME_CHARS_MAX} characters are "
            "the most"
        )
    if _NAME.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    return None
