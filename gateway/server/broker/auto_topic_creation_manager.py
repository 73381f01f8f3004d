"""Has the controller create the topics that clients ask for and that do not exist
(``AutoTopicCreationManager``).

The client asks again until the topic is there, so no request waits for a creation. Requests to the
controller go out one after the other, and a name that is under way is not sent twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.server.quorum.own_requests import OwnRequests
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.ports.services import Controllers, Requester

_CREATE_TOPICS_VERSION: Final = 7
#: How long a response of the controller is waited for, s.
_RESPONSE_S: Final = 30.0
#: Names that are under way, at most; clients ask for the others again.
_NAMES_MAX: Final = 1000


class NewTopics(NamedTuple):
    """The size of topics that are created because clients ask for them."""

    num_partitions: int
    replication_factor: int


class AutoTopicCreationManager:
    """``gateway.ports.replicas.TopicCreator``; :meth:`run` is the task."""

    def __init__(
        self,
        controllers: Controllers,
        new_topics: NewTopics,
        internal: Mapping[str, Callable[[], None]],
    ) -> None:
        """``internal``: how the topics of coordinators are created, which have configs of their
        own.
        """
        self._controllers = controllers
        self._new_topics = new_topics
        self._internal = internal
        self._in_flight: set[str] = set()
        self._due: dict[str, Requester] = {}
        self._wake = trio.Event()

    def create(self, name: str, requester: Requester) -> None:
        """As in ``TopicCreator``."""
        if name in self._internal:
            self._internal[name]()
        elif name not in self._in_flight and len(self._in_flight) < _NAMES_MAX:
            self._in_flight.add(name)
            self._due[name] = requester
            self._wake.set()

    async def run(self) -> None:
        """Send requests, for ever."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._due:
                requester = next(iter(self._due.values()))
                # The controller authorizes a request as a whole, so one is of one client.
                names = [name for name, who in self._due.items() if who == requester]
                for name in names:
                    del self._due[name]
                await self._send(names, requester)
                self._in_flight.difference_update(names)

    async def _send(self, names: list[str], requester: Requester) -> None:
        """Have the controller create topics. After a failure the client, which asks again, causes
        the next attempt.
        """
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=self._new_topics.num_partitions,
                    replication_factor=self._new_topics.replication_factor,
                )
                for name in names
            ],
            timeout_ms=int(_RESPONSE_S * 1000),
        )
        requests = OwnRequests(self._controllers, requester, _RESPONSE_S)
        await requests.send(request, _CREATE_TOPICS_VERSION)
