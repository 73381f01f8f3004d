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
from gateway.slices import Slices, pieces
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

#: How many elements of the image are taken over between two slices: less than 1 ms.
_ELEMENTS_PER_SLICE: Final = 256
_COLLIDING: Final = str.maketrans(".", "_")


class State:
    """``image`` is the working copy. After :meth:`copy`, only :meth:`apply` changes it."""

    def __init__(self) -> None:
        self.image: Final = Image()
        #: What was worked out of the brokers' configuration and of nothing else, by who did; empty
        #: when that changes.
        self.memo: Final[dict[str, Any]] = {}
        self.token_index: Final = TokenIndex()
        self._acls: Counter[Acl] = Counter()
        self._partitions: PartitionIndex | None = None
        self._unified: dict[str, set[str]] = {}

    def copy(self, committed: Image) -> Slices[None]:
        """Take over the ``committed`` image, which must not change meanwhile; once, before anything
        else. Records are never changed, so both images hold the same ones.
        """
        for one in fields(committed):
            value = getattr(committed, one.name)
            if isinstance(value, dict):
                yield from _copy(value, getattr(self.image, one.name))
            else:
                setattr(self.image, one.name, value)
        for acls in pieces(self.image.acls.values(), _ELEMENTS_PER_SLICE):
            self._acls.update(map(Acl.of, acls))
            yield
        for token_ids in pieces(self.image.tokens, _ELEMENTS_PER_SLICE):
            self.token_index.add_all(token_ids)
            yield
        for names in pieces(self.image.topic_ids, _ELEMENTS_PER_SLICE):
            for name in names:
                self._note(name)
            yield

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
        """Which partitions a node leads or may lead; :meth:`index_partitions` makes it first."""
        assert self._partitions is not None, "index_partitions comes first"
        return self._partitions

    def index_partitions(self) -> Slices[None]:
        """Make :attr:`partitions`, in slices. It is made by the first decision or task that needs
        it, since there may be a hundred thousand partitions.
        """
        if self._partitions is None:
            index = PartitionIndex(self.image)
            yield from index.fill()
            self._partitions = index

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


def _copy(source: dict[Any, Any], target: dict[Any, Any]) -> Slices[None]:
    """Put what is in ``source`` into ``target``; of dictionaries in it, copies."""
    for some in pieces(source.items(), _ELEMENTS_PER_SLICE):
        target.update(
            (key, inner.copy() if isinstance(inner, dict) else inner) for key, inner in some
        )
        yield
