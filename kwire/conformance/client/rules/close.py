"""Rules of connections that a broker closes: at the start, at each request, inside answers."""

from __future__ import annotations

import functools
from typing import Final

from kwire.conformance.client.faults import Answer, close_before, cut_half
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.client.traffic import Link
from kwire.conformance.rule import CLIENT, Family, Level, Rule
from kwire.protocol import ApiKey

FAMILY: Final = Family("client-close", "Connections that a broker closes")

#: APIs without LeaveGroup, which a program sends at its end.
_APIS: Final = (
    ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.FETCH,
    ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT,
    ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT, ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE,
    ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE,
)  # fmt: skip
#: A member whose connection closes may join again, and may then read records a second time.
_GROUP: Final = (
    ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_COMMIT,
)  # fmt: skip
#: A program may end with an error if the first node fails before the client knows another one.
_AT_START: Final = (
    ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE,
)  # fmt: skip
_CUTS: Final = (1, 4, 6, 30, -1)
#: Connections that a client may open in two seconds to a node that closes each at once.
_CONNECTIONS_MAX: Final = 100


def closes(api: ApiKey, half: bool, probe: ClientProbe) -> None:
    """Close the connection at the first request of ``api``, or in the middle of its answer."""
    probe.prepare()
    says = "the connection closes in the middle of the answer" if half else "the connection closes"
    fault = probe.fault(says, api, act=cut_half if half else close_before)
    probe.start()
    seen = probe.happened(fault)
    if api is not ApiKey.OFFSET_COMMIT:
        # A commit needs no repetition: the next one has the newer offset.
        probe.request_after(seen, api)
    probe.works(repeats=api in _GROUP)


def _add_all() -> None:
    for api in _APIS:
        for half in (False, True):
            name = f"{api.title}-half" if half else api.title
            where = "in the middle of its answer to" if half else "in place of an answer to"
            FAMILY.add(
                Rule(
                    id=f"client-close.{name}",
                    says=f"A client goes on after a broker closed the connection {where} "
                    f"{api.title}.",
                    check=functools.partial(closes, api, half),
                    source="NetworkClient",
                    section="handleDisconnections",
                    level=Level.SHOULD if api in _AT_START else Level.MUST,
                    roles=CLIENT,
                    apis=(api,),
                )
            )


_add_all()


@FAMILY.rule(
    "at-connect", source="NetworkClient", section="handleDisconnections", level=Level.SHOULD,
    roles=CLIENT,
)  # fmt: skip
def at_connect(probe: ClientProbe) -> None:
    """A client connects again after a broker closed its first connection at once."""
    probe.prepare()
    probe.cluster.admits = lambda link: link.number > 0
    probe.start()
    probe.works()


@FAMILY.rule(
    "inside-every-answer", source="NetworkClient", section="handleDisconnections", roles=CLIENT
)
def inside_every_answer(probe: ClientProbe) -> None:
    """A client takes nothing from answers to Fetch or Produce that end after 1, 4, 6 or 30 bytes or
    before the last one, and asks again.
    """
    probe.prepare()
    cuts = iter(_CUTS)

    def cut(answer: Answer) -> None:
        answer.cut = next(cuts) % len(answer.encoded())

    fault = probe.fault("the answer ends early", probe.data_api, act=cut, times=len(_CUTS))
    probe.start()
    probe.until(lambda: len(fault.happened) == len(_CUTS), "a request after each early end")
    probe.works()


@FAMILY.rule(
    "reconnects-slowly", source="KIP-144", section="Proposed Changes", since="0.11",
    level=Level.SHOULD, roles=CLIENT,
)  # fmt: skip
def reconnects_slowly(probe: ClientProbe) -> None:
    """A client waits between connections to a broker that closes each one at once: it opens no
    more than 50 a second.
    """
    probe.prepare()
    first: list[float] = []

    def admits(link: Link) -> bool:
        first.append(link.opened_at)
        return link.opened_at > first[0] + 2

    probe.cluster.admits = admits
    probe.start()
    probe.until(lambda: first, "the first connection")
    probe.during(2.1)
    count = sum(opened < first[0] + 2 for opened in list(first))
    probe.expect(count <= _CONNECTIONS_MAX, f"the client opened {count} connections in 2 s")
