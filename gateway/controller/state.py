"""The cluster as the active controller sees it: everything that is committed, and what it has
proposed itself since.

A copy of the committed image, so that giving up leadership is letting go of it. Beside the image it
keeps what would take too long to look for in it at every request.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any, Final

from gateway.controller.acl_filters import Acl
from gateway.controller.partition_index import Elections, PartitionIndex
from gateway.controller.token_index import TokenIndex
from kwire.cluster import Image, apply
from kwire.cluster.image import BROKER_RESOURCE
from kwire.message import Message
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.messages.config_record import ConfigRecord
from kwire.messages.delegation_token_record import DelegationTokenRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord

_COLLIDING: Final = str.maketrans(".", "_")


class State:
    """``image`` is the working copy; nobody but :meth:`apply` changes it, nor the committed one it
    was made from.
    """

    def __init__(self, committed: Image) -> None:
        self.image: Final = copy_of(committed)
        #: What was worked out of the brokers' configuration and of nothing else, by who did; empty
        #: when that changes.
        self.memo: Final[dict[str, Any]] = {}
        self.token_index: Final = TokenIndex(self.image.tokens)
        self._acls = Counter(map(Acl.of, self.image.acls.values()))
        self._partitions: PartitionIndex | None = None
        self._unified: dict[str, set[str]] = {}
        for name in self.image.topic_ids:
            self._note(name)

    def apply(self, message: Message) -> None:
        """Make the change that a record makes. Raises FoldError for one that does not fit: our own
        mistake.
        """
        if isinstance(message, PartitionChangeRecord) and self._partitions is not None:
            self._partitions.apply(
                message
            )  # there may be thousands of these at once, and nothing else goes by them
            return
        removed = (
            self.image.topics[message.topic_id] if isinstance(message, RemoveTopicRecord) else None
        )
        if isinstance(message, RemoveAccessControlEntryRecord):
            self._forget_acl(message)
        if self._partitions is None:
            apply(self.image, message)
        else:
            self._partitions.apply(message)
        if isinstance(message, TopicRecord):
            self._note(message.name)
        elif isinstance(message, ConfigRecord):
            if message.resource_type == BROKER_RESOURCE:
                self.memo.clear()
        elif isinstance(message, AccessControlEntryRecord):
            self._acls[Acl.of(message)] += 1
        elif isinstance(message, DelegationTokenRecord):
            self.token_index.add(message.token_id)
        elif isinstance(message, RemoveDelegationTokenRecord):
            self.token_index.remove(message.token_id)
        elif removed is not None:
            self._forget(removed)

    def has_acl(self, acl: Acl) -> bool:
        """Is there an ACL that says just that?"""
        return self._acls[acl] > 0

    @property
    def partitions(self) -> PartitionIndex:
        """Which partitions a node leads or may lead. Made when first asked for: a cluster without
        brokers never needs it.
        """
        if self._partitions is None:
            self._partitions = PartitionIndex(self.image)
        return self._partitions

    @property
    def elections(self) -> Elections:
        """Those of leaders that were not in sync; where nobody asked for :attr:`partitions` yet
        there were none.
        """
        return Elections() if self._partitions is None else self._partitions.elections

    def colliding(self, name: str) -> str | None:
        """A topic that exists and differs from ``name`` in ``.`` for ``_`` only, if there is one
        (metrics mix the two up).
        """
        return min(self._unified.get(unified(name), ()), default=None)

    def _forget_acl(self, message: RemoveAccessControlEntryRecord) -> None:
        acl = Acl.of(self.image.acls[message.id])
        self._acls[acl] -= 1
        if not self._acls[acl]:
            del self._acls[acl]

    def _note(self, name: str) -> None:
        if has_collision_chars(name):
            self._unified.setdefault(unified(name), set()).add(name)

    def _forget(self, name: str) -> None:
        if has_collision_chars(name):
            names = self._unified[unified(name)]
            names.discard(name)
            if not names:
                del self._unified[unified(name)]


def has_collision_chars(name: str) -> bool:
    """Does ``name`` hold a character that metrics write in the same way as another one
    (``Topic.hasCollisionChars``)?
    """
    return "_" in name or "." in name


def unified(name: str) -> str:
    """``name`` as metrics write it (``Topic.unifyCollisionChars``)."""
    return name.translate(_COLLIDING)


def copy_of(image: Image) -> Image:
    """An image of its own with the same records. Records are never changed, so both hold the same
    ones.
    """
    return Image(**{one.name: _copy(getattr(image, one.name)) for one in fields(image)})


def _copy(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: inner.copy() if isinstance(inner, dict) else inner for key, inner in value.items()}
