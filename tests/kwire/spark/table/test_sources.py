"""Sources of the tables of several clusters: names, options, and what is refused."""

from __future__ import annotations

import pytest

from kwire.spark.table.sources import sources_of


def test_sources_have_names_addresses_and_time_limits() -> None:
    one, other, third = sources_of(
        [
            "h1:9092,h2:9092",
            "/copies/asia",
            {"name": "eu", "bootstrap.servers": "h3:9092", "kafka.request.timeout.ms": "7"},
        ]
    )
    assert (one.name, one.address, one.directory) == (None, "h1:9092,h2:9092", None)
    assert (other.key, other.directory) == ("/copies/asia", "/copies/asia")
    assert (third.key, third.address) == ("eu", "h3:9092")
    assert one.settings.client == {"bootstrap_timeout_ms": 5000, "request_timeout_ms": 10000}
    assert third.settings.client["request_timeout_ms"] == 7
    [named] = sources_of({"us": "h4:9092"})
    assert named.name == "us"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "the list of sources is empty"),
        (["h:1", "h:1"], "the source h:1 is there twice"),
        ({"a/b": "h:1"}, "named by letters"),
        ([{"name": "a"}], "neither bootstrap.servers nor path"),
        (
            [{"bootstrap.servers": "h:1", "startingOffsets": "latest"}],
            "no option 'startingOffsets'",
        ),
        ([{"bootstrap.servers": "h:1", "kafka.no.such": "1"}], "kwire has no option"),
    ],
)
def test_source_that_will_not_do_is_refused(given: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        sources_of(given)
