"""Declares, as a Protocol, the whole that request handlers use: each part has its own in
``gateway.ports.services``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.config.config import Config
    from gateway.handlers.fetch_sessions import FetchSessionCache
    from gateway.handlers.topic_index import TopicIndex
    from gateway.ports.replicas import ProducerIds, Replicas, TopicCreator
    from gateway.ports.services import (
        Audit,
        Authorizer,
        Controllers,
        Endpoint,
        Groups,
        Partition,
        Partitions,
        Quorum,
        RaftPeers,
    )
    from gateway.ports.transactions import Transactions
    from gateway.ports.view_topics import Views


class Gateway(Protocol):
    """Everything that a handler may use."""

    @property
    def node_id(self) -> int: ...
    @property
    def partition(self) -> Partition:
        """The metadata partition."""

    @property
    def partitions(self) -> Partitions: ...
    @property
    def fetch_sessions(self) -> FetchSessionCache: ...
    @property
    def quorum(self) -> Quorum | None:
        """None where the partition comes from files: then this node is the whole cluster."""

    @property
    def controller(self) -> Controllers | None:
        """None where other nodes write the log: then requests that change the cluster are refused.
        Never set without ``quorum``.
        """

    @property
    def raft(self) -> RaftPeers | None:
        """None where this node has no quorum of its own."""

    @property
    def relay(self) -> RaftPeers | None:
        """This node as an observer that others follow. None without a listener for them."""

    @property
    def audit(self) -> Audit | None:
        """None where this node has no quorum of its own, or ``metadata.audit.enable`` is false."""

    @property
    def views(self) -> Views | None: ...  # None where metadata.views.enable is false
    @property
    def replicas(self) -> Replicas | None:
        """None where this node keeps no records of topics."""

    @property
    def producer_ids(self) -> ProducerIds | None:
        """Set where ``replicas`` is."""

    @property
    def transactions(self) -> Transactions | None:
        """Set where ``replicas`` is."""

    @property
    def topic_creator(self) -> TopicCreator | None:
        """None where this node is no broker, or ``auto.create.topics.enable`` is false."""

    @property
    def groups(self) -> Groups: ...
    @property
    def topic_index(self) -> TopicIndex:
        """The topics of the own quorum's image, in order, and their kept encodings."""
        ...

    @property
    def authorizer(self) -> Authorizer: ...
    @property
    def config(self) -> Config:
        """The configuration of this server."""
        ...

    def endpoint(self, listener: str) -> Endpoint:
        """The advertised address of this node for clients of ``listener``."""
        ...

    def is_for_controllers(self, listener: str) -> bool:
        """True for a listener of ``controller.listener.names``: for nodes and their tools."""
        ...
