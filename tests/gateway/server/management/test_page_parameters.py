"""Parameters of the page's requests: odd ones, and those of the tables."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from gateway.page.tables import ROWS_MAX
from tests.gateway.page.sample_log import state
from tests.gateway.server.management.http_client import Client
from tests.gateway.server.management.test_page_api import END, get, until_read, with_page

ODD = [
    "[" * 2500, "9" * 5000, "-" + "9" * 30, "1.", "1.x", ".", "NaN", "null", "[null]",
    '["' + "x" * 4000 + '"]', '["\\ud800"]', "\0", "\u0661", "1e9", " 7", "",
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/state", "path"), ("/api/state", "at"), ("/api/state", "start"),
        ("/api/state", "text"),
        ("/api/difference", "before"), ("/api/difference", "after"), ("/api/changes", "after"),
        ("/api/change", "offset"), ("/api/fields", "api"), ("/api/fields", "version"),
        ("/api/topics", "sort"), ("/api/topics", "start"), ("/api/topics", "text"),
        ("/api/brokers", "sort"), ("/api/partitions", "topic"), ("/api/partitions", "only"),
    ],
)  # fmt: skip
def test_odd_parameter_is_refused_or_answered(path: str, name: str) -> None:
    async def talk(client: Client) -> None:
        await until_read(client)
        for value in ODD:
            query = {"api": 18, "version": 0, name: value}
            reply = await client.get(f"{path}?{urlencode(query)}")
            assert reply.status in (200, 400, 404), (value, reply.body)

    with_page(talk)


def test_tables_come_in_pages_in_the_order_that_is_asked_for() -> None:
    async def talk(client: Client) -> None:
        await until_read(client)
        topics = await get(client, "/api/topics", sort="partitions", order="desc")
        assert topics["total"] == len(topics["rows"]) == len(state(END).topics)
        assert topics["rows"][0]["partitions"] == max(row["partitions"] for row in topics["rows"])
        rest = await get(client, "/api/topics", sort="partitions", order="desc", start=2)
        assert rest["rows"] == topics["rows"][2:]
        brokers = await get(client, "/api/brokers", text="1")
        assert [row["id"] for row in brokers["rows"]] == [1]
        offline = await get(client, "/api/partitions", only="offline")
        assert 0 < len(offline["rows"]) <= ROWS_MAX <= offline["total"]
        assert all(row["leader"] == -1 for row in offline["rows"])
        assert (await client.get("/api/topics?sort=x")).status == 400
        assert (await client.get("/api/partitions?topic=none")).status == 400

    with_page(talk)
