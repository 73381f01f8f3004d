"""Rules of throttle times: a client stops sending on a connection for as long as an answer says."""

from __future__ import annotations

import functools
from typing import Final

from kwire.conformance.client.faults import Answer
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.rule import CLIENT, Family, Level, Rule
from kwire.protocol import ApiKey

FAMILY: Final = Family("client-throttle", "Throttle times")

_THROTTLE_MS: Final = 2000
#: Requests may be on their way when the answer is sent; a client may wait a little less.
_ON_THE_WAY_S: Final = 0.05
_TOLERANCE_S: Final = 0.2
#: API -> the first version in which a client throttles itself (KIP-219).
_FROM: Final = {
    ApiKey.FETCH: 8,
    ApiKey.PRODUCE: 6,
    ApiKey.METADATA: 6,
    ApiKey.LIST_OFFSETS: 3,
    ApiKey.FIND_COORDINATOR: 2,
}


def _throttle(answer: Answer) -> None:
    answer.body.throttle_time_ms = _THROTTLE_MS


def obeyed(api: ApiKey, probe: ClientProbe) -> None:
    """Answer one request with a throttle time."""
    probe.uses(api, _FROM[api])
    probe.prepare()
    fault = probe.fault(f"a throttle time of {_THROTTLE_MS} ms", api, act=_throttle)
    probe.start()
    seen = probe.happened(fault)
    start: float = probe.until(lambda: seen.answered_at, "the answer")
    probe.during(_THROTTLE_MS / 1000)
    probe.works()
    early = [
        one
        for one in probe.traffic.after(seen)
        if one.link is seen.link
        and start + _ON_THE_WAY_S < one.at < start + _THROTTLE_MS / 1000 - _TOLERANCE_S
    ]
    if early:
        title, after_s = ApiKey(early[0].api).title, early[0].at - start
        probe.fail(
            f"{after_s:.2f} s after an answer with a throttle time of {_THROTTLE_MS} ms the client "
            f"sent {title} on the same connection"
        )


for _api in _FROM:
    FAMILY.add(
        Rule(
            id=f"client-throttle.{_api.title}",
            says=f"A client that gets a throttle time with an answer to {_api.title} sends nothing "
            "on that connection for so long.",
            check=functools.partial(obeyed, _api),
            source="KIP-219",
            section="Proposed Changes",
            level=Level.SHOULD,
            since="2.0",
            roles=CLIENT,
            apis=(_api,),
        )
    )
