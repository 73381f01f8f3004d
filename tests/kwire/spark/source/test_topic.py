"""The options of ``format("kwire-topic")``; tests/interop reads topics by it."""

from __future__ import annotations

import os

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from kwire.spark.source.topic import TopicSource


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bootstrap.servers": "a:1"}, "needs the option topic"),
        ({"topic": "t"}, "give either bootstrap.servers"),
        ({"topic": "t", "bootstrap.servers": "a:1", "keep": "value"}, "no option 'keep'"),
        ({"topic": "t", "bootstrap.servers": "a:1", "kafka.x": "1"}, "kwire has no option"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        TopicSource(options).reader(None)
