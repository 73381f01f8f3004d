"""Describes an admin API: all that is particular to it, beside its decision.

Each module of ``gateway.controller.apis`` has one descriptor, called ``API``. Handlers, forwarding,
the controller, refusals and the audit topic are loops over the descriptors.
``kwire.protocol.ApiKey`` knows versions, listeners and whether brokers forward the request; a
descriptor does not repeat them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gateway.base.slices import Slices
from gateway.controller.request_context import (
    ANONYMOUS,
    ControllerRequestContext,
    ControllerResult,
)
from gateway.ports.streamed import Streamed
from kwire.message import Message
from kwire.protocol import ApiKey

#: How long a client waits where the request does not say so, ms (``default.api.timeout.ms``).
TIMEOUT_MS: Final = 60_000
#: A resource that a request names: its type, as ACLs call it, and its name. The name is None for
#: the cluster, for a default, and where a filter leaves it open.
Resource = tuple[str, str | None]
#: A decision in slices. No other decision is made until it is complete, as in the single thread of
#: Kafka's ``QuorumController``, so that it sees one state throughout.
SlicedDecision = Slices[ControllerResult]


class Refusal(NamedTuple):
    """An error for a request as a whole, which its response repeats for each element.

    ``version`` is that of the request. ``principal`` is the requester where the response names one.
    """

    version: int
    error: int
    message: str | None
    principal: str = ANONYMOUS


class Requirement(enum.Enum):
    """A condition on the node that the client is connected to, before the controller is asked."""

    AUTHORIZER = enum.auto()  #: an authorizer reads ACLs; without one they would have no effect
    TOKEN_REQUESTER = enum.auto()  #: the client is authenticated, and not by a token (KIP-48)


def no_resources(request: Any) -> Iterable[Resource]:
    """The resources of a request that names none, or that the audit topic does not record."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminApi:
    """An API that the active controller carries out.

    ``operation`` is the name of the event in Kafka's ``QuorumController``. ``decide(request,
    context)`` gives the result, at once or as a :data:`SlicedDecision`, and raises ApiError for a
    request that is refused as a whole. ``refuse(request, refusal)`` gives the response with one
    error for everything that was asked, streamed where that is much. ``cluster_operation`` is what
    the requester must be allowed on the cluster; None where ``decide`` asks the authorizer about
    each resource. ``resources(request)`` names what a change is about for the audit topic: no value
    and no credential.
    """

    key: ApiKey
    operation: str
    decide: Callable[[Any, ControllerRequestContext], ControllerResult | SlicedDecision]
    refuse: Callable[[Any, Refusal], Message | Streamed]
    cluster_operation: str | None = None
    resources: Callable[[Any], Iterable[Resource]] = no_resources
    requirement: Requirement | None = None
    #: Whether the request only reads: a server without a controller of its own has nothing to list,
    #: and answers so.
    reads_only: bool = False
    #: How long a client waits, ms, where the request does not say so.
    timeout_ms: int = TIMEOUT_MS
    #: Request classes of versions that are served and not advertised.
    old_requests: Mapping[int, type[Message]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the API as modules and metrics spell it: ``create_topics``."""
        return self.key.name.lower()

    @property
    def is_audited(self) -> bool:
        """Whether the audit topic records the changes that the API makes.

        These are the requests that clients send to brokers, which forward them (KIP-590). Brokers
        send too many requests of their own for a person to read, and log them themselves.
        """
        return self.key.forwardable and "broker" in self.key.listeners


def named_topics(request: Any) -> Iterable[Resource]:
    """The topics of a request that has ``topics`` with names."""
    for topic in request.topics or ():
        yield "TOPIC", topic.name
