"""Answers the requests of the page: its files, and JSON of the log, the quorum and the protocol.

Every response is bounded, and what takes long is made in a thread. ``gateway.page`` makes the
content.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import trio

from gateway.base.sizes import KIB
from gateway.page import wire
from gateway.page.assets import CSS, HTML, JS, POLICY, asset
from gateway.page.quorum import described
from gateway.page.snapshot_json import LogEnd, LogSource, now_json
from gateway.page.state_browser import NoSuchPath, browse, differences
from gateway.page.tables import TableQuery, Tables
from gateway.page.timeline_rows import offset_text, parse_offset
from gateway.page.topic_usage import TopicUsage
from gateway.server.management.http_connections import Answer, RequestBody
from gateway.server.management.page_log import PageLog
from gateway.server.management.requester import (
    replica_of_audit_topic,
    requester_of,
    search,
)
from gateway.server.management.status import readyz
from gateway.server.management.topic_usage_task import TopicUsageTask
from kwire.metadata_log.at import is_time_ms

if TYPE_CHECKING:
    import h11

    from gateway.ports.services import Quorum
    from gateway.server.management.facts import Facts
    from gateway.sources.audit_partition import AuditPartition
    from kwire.cluster import Image
    from kwire.messages.describe_quorum_response import DescribeQuorumResponse

#: Rows of one response, about: some 300 KB.
_ROWS_MAX: Final = 5000
#: The last row of a table that a page may begin with: a filter leads to those behind.
_START_MAX: Final = 100_000
_BODY_BYTES_MAX: Final = 80 * KIB
#: The longest wait for the leader's answer, and the time for which it is shown again, s.
_DESCRIBED_S: Final = 1.0
_KEPT_S: Final = 0.4
_JSON: Final = "application/json; charset=utf-8"
_TOO_LARGE: Final = Answer(413, b"The request is too large, or came too slowly.\n")
_FILE_PATHS: Final = {"/": HTML, f"/{CSS}": CSS, f"/{JS}": JS}

_Query = Mapping[str, str]


class BadRequest(ValueError):
    """A parameter is missing or invalid; the text says which."""


class PageApi:
    """The paths of the page. ``quorum`` is the one behind the log, if there is one; ``audit`` this
    node's audit log.
    """

    def __init__(
        self,
        facts: Facts,
        log: PageLog,
        quorum: Quorum | None,
        audit: AuditPartition | None = None,
    ) -> None:
        self._facts = facts
        self._log = log
        self._quorum = quorum
        self._audit = audit
        replicas = facts.replicas
        self._usage = None if replicas is None else TopicUsageTask(replicas)
        self._described: tuple[float, dict[str, Any] | None, str | None] = (-1.0, None, None)
        self._describing = trio.Lock()
        self._get: dict[str, Callable[[_Query], Awaitable[Answer]]] = {
            "/api/now": self._now,
            "/api/changes": self._changes,
            "/api/change": self._change,
            "/api/topics": self._topics,
            "/api/brokers": self._brokers,
            "/api/partitions": self._partitions,
            "/api/state": self._state,
            "/api/difference": self._difference,
            "/api/apis": self._apis,
            "/api/fields": self._fields,
        }
        self._post: dict[str, Callable[[RequestBody], Awaitable[Answer]]] = {
            "/api/dissect": self._dissect,
            "/api/capture": self._capture,
        }

    async def run(self) -> None:
        """Follow the log and measure the topics while a page is open, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._log.run)
            if self._usage is not None:
                nursery.start_soon(self._usage.run)

    def serves(self, path: str) -> bool:
        """Whether ``path`` is one of the page."""
        return path in _FILE_PATHS or path in self._get or path in self._post

    def methods(self, path: str) -> Sequence[bytes]:
        """Return the methods that ``path`` is served with."""
        return (b"POST",) if path in self._post else (b"GET", b"HEAD")

    async def answer(
        self, request: h11.Request, path: str, query: str, body: RequestBody
    ) -> Answer:
        """Return the response to a request of a path that is served, with a method of it."""
        if path in _FILE_PATHS:
            return _file(request, _FILE_PATHS[path])
        try:
            if path in self._post:
                return await self._post[path](body)
            given = parse_qs(query, keep_blank_values=True, max_num_fields=10)
            return await self._get[path]({name: values[0] for name, values in given.items()})
        except ValueError as error:  # of a parameter, a path or an offset
            return _json({"error": str(error)}, 404 if isinstance(error, NoSuchPath) else 400)

    # --- the log
    # ---------------------------------------------------------------------------------------------

    async def _now(self, query: _Query) -> Answer:
        follower = await self._log.follow()
        facts, partition = self._facts.at_one_moment(), self._facts.partition
        quorum, problem = await self._quorum_now()
        level, newest = facts.metadata_version() or 0, partition.max_timestamp()
        if follower is not None:
            level = follower.cursor.image.metadata_version
        return _json(
            now_json(
                LogSource(
                    facts.version,
                    facts.node_id,
                    partition.cluster_id,
                    facts.source,
                    facts.cluster_name,
                ),
                round(1000 * facts.wall()),
                readyz(facts)[1],
                LogEnd(
                    partition.log_start_offset, partition.high_watermark, partition.leader_epoch
                ),
                level,
                await self._log.leaders(),
                None if follower is None else follower.shown,
                available=self._log.available,
                latest=None if newest is None else newest.timestamp,
                quorum=quorum,
                copy=_copy(facts),
                problem=problem,
            )
        )

    async def _changes(self, query: _Query) -> Answer:
        after = parse_offset(query["after"]) if query.get("after") else -1
        follower = self._log.follower
        if follower is None:
            return _json({"number": None, "rows": [], "more": True})
        number = follower.number
        found = await self._log.in_thread(partial(follower.changes.rows, after, _ROWS_MAX))
        head = json.dumps({"number": number, "last": offset_text(found.last), "more": found.more})
        return Answer(
            200, head[:-1].encode() + b',"rows":[' + b",".join(found.texts) + b"]}\n", _JSON
        )

    async def _change(self, query: _Query) -> Answer:
        follower, offset = self._log.follower, parse_offset(query.get("offset", ""))
        line = None
        if follower is not None:
            line = await self._log.in_thread(partial(follower.changes.line, offset))
        if line is None:
            return _json({"error": "This change is no longer kept."}, 404)
        change = json.loads(line)
        await self._add_requester(change)
        return _json(change)

    async def _add_requester(self, change: dict[str, Any]) -> None:
        """Add who asked for the change, as far as this node knows."""
        at, time = change["source"]["offset"], change["ts_ms"]
        if self._audit is not None:
            change["who"] = await requester_of(self._audit, at, time)
        if change.get("who") is None and self._quorum is not None:
            replica = replica_of_audit_topic(self._quorum.image, self._facts.replicas)
            if replica is not None:
                change["who"] = await search(replica, at, time)

    async def _topics(self, query: _Query) -> Answer:
        usage: Mapping[str, TopicUsage] | None = None
        if self._usage is not None:
            usage = await self._usage.measured()
        return await self._table(lambda image, tables: tables.topics(image, _wanted(query), usage))

    async def _brokers(self, query: _Query) -> Answer:
        return await self._table(lambda image, tables: tables.brokers(image, _wanted(query)))

    async def _partitions(self, query: _Query) -> Answer:
        asked = {name: query.get(name, "") for name in ("topic", "only")}
        start = _wanted(query).start
        return await self._table(
            lambda image, tables: tables.partitions(image, **asked, start=start)
        )

    async def _table(self, rows: Callable[[Image, Tables], dict[str, Any]]) -> Answer:
        """A part of a table of the state as it is folded now."""
        follower = await self._log.follow()
        if follower is None:
            return _json({"total": 0, "start": 0, "rows": []})
        image, tables = follower.cursor.image, follower.changes.tables
        return await self._made(partial(rows, image, tables))

    async def _state(self, query: _Query) -> Answer:
        image = await self._log.state(self._offset(query, "at"))
        path, text = _parsed(query.get("path", "[]")), query.get("text", "")
        if not isinstance(path, list) or not all(isinstance(name, str) for name in path):
            raise BadRequest("path is a JSON array of names")
        start = int(query.get("start", "0"))
        work = partial(browse, image, path, start=max(0, start), text=text)
        return await self._made(work)

    async def _difference(self, query: _Query) -> Answer:
        before = await self._log.state(self._offset(query, "before"))
        after = await self._log.state(self._offset(query, "after"))
        return await self._made(partial(differences, before, after))

    def _offset(self, query: _Query, name: str) -> int | None:
        """Return the offset that a parameter gives, as an offset or as a time in ms since 1970;
        None where it is empty, which means now.
        """
        text = query.get(name, "")
        if not text:
            return None
        number = int(text)
        return self._log.offset_at(number) if is_time_ms(number) else number

    # --- the quorum
    # ---------------------------------------------------------------------------------------------

    async def _quorum_now(self) -> tuple[dict[str, Any] | None, str | None]:
        """The described quorum, or why there is none. All pages together ask the leader once."""
        if self._quorum is None:
            return None, None
        async with self._describing:
            if trio.current_time() - self._described[0] >= _KEPT_S:
                found = await _describe(self._quorum)
                known = None if isinstance(found, str) else described(found)
                problem = found if isinstance(found, str) else None
                self._described = trio.current_time(), known, problem
            return self._described[1:]

    # --- the protocol
    # ---------------------------------------------------------------------------------------------

    async def _apis(self, query: _Query) -> Answer:
        return await self._made(wire.apis)

    async def _fields(self, query: _Query) -> Answer:
        key, version = int(query.get("api", "")), int(query.get("version", ""))
        return await self._made(partial(wire.api, key, version))

    async def _dissect(self, body: RequestBody) -> Answer:
        text = await body.read(_BODY_BYTES_MAX)
        if text is None:
            return _TOO_LARGE
        asked = _parsed(text)
        if not isinstance(asked, dict):
            raise BadRequest("a JSON object is needed")
        return await self._made(partial(wire.dissected, asked))

    async def _capture(self, body: RequestBody) -> Answer:
        data = await body.read(wire.CAPTURE_BYTES_MAX)
        return _TOO_LARGE if data is None else await self._made(partial(wire.captured, data))

    async def _made(self, work: Callable[[], Any]) -> Answer:
        """The JSON of what a thread makes."""
        return await self._log.in_thread(lambda: _json(work()))


def _copy(facts: Facts) -> dict[str, Any] | None:
    """How good an observer's copy of the log is; None for a server that observes no quorum."""
    quorum, complete_s, lag_ms = facts.quorum_status(), facts.complete_s(), facts.lag_ms()
    if quorum is None or complete_s is None or lag_ms is None:
        return None
    now_ms, has_caught_up = 1000 * facts.wall(), quorum.last_caught_up_at is not None
    return {
        "completeSince": round(now_ms - 1000 * complete_s) if complete_s else None,
        "caughtUp": round(now_ms - lag_ms) if has_caught_up else None,
        "lag": facts.lag_offsets(),
    }


async def _describe(quorum: Quorum) -> DescribeQuorumResponse | str:
    """Return the leader's description, or a sentence."""
    found: list[DescribeQuorumResponse | str] = []
    answered = trio.Event()

    def respond(response: DescribeQuorumResponse | str) -> None:
        found.append(response)
        answered.set()

    quorum.describe(respond)
    with trio.move_on_after(_DESCRIBED_S):
        await answered.wait()
    if not found:
        return "The leader does not answer."
    if not isinstance(found[0], str) and not (found[0].topics and found[0].topics[0].partitions):
        return "There is no leader."
    return found[0]


def _file(request: h11.Request, name: str) -> Answer:
    """Return a file of the page, or status 304 if the browser has the same one (ETag)."""
    content_type, data, etag = asset(name)
    more = (
        ("ETag", etag),
        ("Content-Security-Policy", POLICY),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    )
    known = [value for header, value in request.headers if header == b"if-none-match"]
    if etag.encode() in known:
        return Answer(304, b"", content_type, more, cache="no-cache")
    return Answer(200, data, content_type, more, cache="no-cache")


def _wanted(query: _Query) -> TableQuery:
    start = int(query.get("start") or "0")
    if not 0 <= start <= _START_MAX:
        raise BadRequest(f"start is a number up to {_START_MAX}")
    is_descending = query.get("order") == "desc"
    return TableQuery(query.get("sort") or "name", is_descending, start, query.get("text", ""))


def _parsed(text: str | bytes) -> Any:
    """Return JSON of a request. Raises ValueError, also where it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise BadRequest("the JSON is nested too deeply") from None


def _json(document: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(document).encode("ascii") + b"\n", _JSON)
