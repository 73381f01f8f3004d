"""Holds the cluster as the active controller sees it: the committed image, and its own proposals.

It is a copy of the committed image, so a node that loses leadership drops it (Kafka's controller
reverts its ``SnapshotRegistry``). Beside the image it holds indexes, for look-ups that would
otherwise search the image at every request.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any, Final

from gateway.base.slices import Slices, pieces
from gateway.controller.acl_filters import Acl
from gateway.controller.partition_index import PartitionIndex
from gateway.controller.token_index import TokenIndex
from kwire.cluster import Image, apply
from kwire.cluster.image import BROKER_RESOURCE
from kwire.cluster.interned_lists import share
from kwire.message import Message
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.messages.config_record import ConfigRecord
from kwire.messages.delegation_token_record import DelegationTokenRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord

#: Elements of the image that one slice copies, in less than 1 ms.
_ELEMENTS_PER_SLICE: Final = 256
_COLLIDING: Final = str.maketrans(".", "_")


class State:
    """The cluster with the controller's own proposals. After :meth:`copy` only :meth:`apply`
    changes ``image``; the committed image, of which it is a copy, stays the same.
    """

    def __init__(self) -> None:
        self.image: Final = Image()
        #: Results that depend on the configuration of brokers alone, by the module that made them.
        #: It is cleared when that configuration changes.
        self.memo: Final[dict[str, Any]] = {}
        self.token_index: Final = TokenIndex()
        self._acls: Counter[Acl] = Counter()
        self._partitions: PartitionIndex | None = None
        self._unified: dict[str, set[str]] = {}

    def copy(self, committed: Image) -> Slices[None]:
        """Copy the ``committed`` image, in slices; once, before anything else. It must not change
        meanwhile. Both images share the records, which are never changed in place.
        """
        for one in fields(committed):
            # By the fields of the image, so that a new field cannot be forgotten here.
            value = getattr(committed, one.name)
            # The image's fields are dictionaries and numbers; nothing else is shared.
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
        """Apply a record. Raises FoldError for one that does not fit the state, which is a bug:
        this controller made it.
        """
        if isinstance(message, PartitionChangeRecord) and self._partitions is not None:
            # Only the partition index depends on these records, of which a fenced broker causes
            # thousands. The index applies the record to the image itself, because it needs the
            # partition before and after.
            self._partitions.apply(message)
            return
        if isinstance(message, PartitionRecord):
            share(message)
        # Looked up before the record is applied, as the image loses the name with the topic.
        removed = (
            self.image.topics[message.topic_id] if isinstance(message, RemoveTopicRecord) else None
        )
        if isinstance(message, RemoveAccessControlEntryRecord):  # likewise: the record has the id
            self._forget_acl(message)
        if self._partitions is None:
            apply(self.image, message)
        else:
            self._partitions.apply(message)
        if isinstance(message, TopicRecord):
            self._note(message.name)
        elif isinstance(message, ConfigRecord):
            if message.resource_type == BROKER_RESOURCE:
                # Which keys a result depends on is not tracked: broker configurations change
                # seldom.
                self.memo.clear()
        elif isinstance(message, AccessControlEntryRecord):
            # Counted: a log may hold one ACL under two ids, and each of them is removed alone.
            self._acls[Acl.of(message)] += 1
        elif isinstance(message, DelegationTokenRecord):
            self.token_index.add(message.token_id)
        elif isinstance(message, RemoveDelegationTokenRecord):
            self.token_index.remove(message.token_id)
        elif removed is not None:
            self._forget(removed)

    def has_acl(self, acl: Acl) -> bool:
        """Whether an ACL equal to ``acl`` exists (``AclControlManager.existingAcls``)."""
        return self._acls[acl] > 0

    @property
    def partitions(self) -> PartitionIndex:
        """The index of partitions by node, which :meth:`index_partitions` has filled before."""
        assert self._partitions is not None, "index_partitions comes first"
        assert self._partitions.is_filled, "index_partitions has to end"
        return self._partitions

    def index_partitions(self) -> Slices[None]:
        """Fill :attr:`partitions`, in slices; decisions may be made in between. A second call goes
        on where the first one was left.

        The first decision or task that needs the index waits for it: there may be a million
        partitions, and a cluster without brokers needs none.
        """
        if self._partitions is None:
            self._partitions = PartitionIndex(self.image)
        yield from self._partitions.fill()

    def colliding(self, name: str) -> str | None:
        """Return a topic whose name differs from ``name`` only in ``.`` for ``_``; None without
        one.

        Metric names have ``_`` for both, so the metrics of the two topics would be one.
        """
        # The least of them, so that equal states give equal messages.
        return min(self._unified.get(unified(name), ()), default=None)

    def _forget_acl(self, message: RemoveAccessControlEntryRecord) -> None:
        acl = Acl.of(self.image.acls[message.id])
        self._acls[acl] -= 1
        # Zeros would stay for every ACL that was ever deleted.
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
    """Whether ``name`` has a character that another one becomes in metric names
    (``Topic.hasCollisionChars``).
    """
    return "_" in name or "." in name


def unified(name: str) -> str:
    """Return ``name`` as metric names have it (``Topic.unifyCollisionChars``)."""
    return name.translate(_COLLIDING)


def _copy(source: dict[Any, Any], target: dict[Any, Any]) -> Slices[None]:
    """Put the values of ``source`` into ``target``, and copies of the dictionaries among them."""
    for some in pieces(source.items(), _ELEMENTS_PER_SLICE):
        target.update(
            (key, inner.copy() if isinstance(inner, dict) else inner) for key, inner in some
        )
        yield
