"""Options of ``format("kwire")``: what they mean, and the sentence for what they cannot mean."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.errors import UnknownApi
from kwire.spark.record_types import type_prefix
from kwire.spark.source.options import Place, settings_of

SERVER = {"bootstrap.servers": "a:1,b:2"}


def test_the_least() -> None:
    settings = settings_of(SERVER)
    assert (settings.bootstrap, settings.paths, settings.start, settings.end) == (
        "a:1,b:2",
        (),
        None,
        None,
    )
    assert settings.fail_on_data_loss and not settings.fail_fast and not settings.secrets
    assert settings_of({"kafka.bootstrap.servers": "a:1"}).bootstrap == "a:1"
    assert settings_of({"path": "/x"}).paths == ("/x",)
    assert settings_of({"paths": '["/x", "/y"]'}).paths == ("/x", "/y")


@pytest.mark.parametrize(
    ("option", "value", "place"),
    [
        ("startingOffsets", "earliest", Place(name="earliest")),
        ("startingOffsets", "LATEST", Place(name="latest")),
        ("startingOffsets", "17", Place(offset=17)),
        ("startingOffsets", '{"__cluster_metadata":{"0":17}}', Place(offset=17)),
        ("startingOffsets", '{"__cluster_metadata":{"0":-2}}', Place(name="earliest")),
        ("startingTimestamp", "1795237200000", Place(timestamp_ms=1795237200000)),
    ],
)
def test_start_position_is_parsed(option: str, value: str, place: Place) -> None:
    assert settings_of({**SERVER, option: value}).start == place
    # Spark hands the names over in lower case.
    assert settings_of({**SERVER, option.lower(): value}).start == place


def test_options_are_translated_for_kafka_python() -> None:
    settings = settings_of(
        {
            **SERVER,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl_plain_username": "ann",
            "kafka.sasl_plain_password": "x",
            "kafka.ssl_check_hostname": "false",
            "kafka.request_timeout_ms": "9000",
            "kafka.max.partition.fetch.bytes": "10",
        }
    )
    assert settings.client == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "x",
        "ssl_check_hostname": False,
        "request_timeout_ms": 9000,
    }
    assert settings.fetch == {"max_partition_fetch_bytes": 10}


def test_record_types_by_the_first_bytes() -> None:
    settings = settings_of(
        {
            **SERVER,
            "recordTypes": "TopicRecord, PARTITION_RECORD",
            "excludeRecordTypes": "NoOpRecord",
        }
    )
    assert settings.only == (b"\x01\x02", b"\x01\x03")
    assert settings.without == (b"\x01\x14",)
    assert type_prefix("TOPIC_RECORD") == type_prefix("TopicRecord")
    with pytest.raises(UnknownApi, match="NoRecord"):
        settings_of({**SERVER, "recordTypes": "NoRecord"})


def test_entities_are_the_types_about_them() -> None:
    assert settings_of({**SERVER, "entities": "topic"}).only == (
        type_prefix("TopicRecord"),
        type_prefix("RemoveTopicRecord"),
    )
    both = settings_of(
        {**SERVER, "entities": "topic,partition", "recordTypes": "PartitionRecord,ConfigRecord"}
    )
    assert both.only == (type_prefix("PartitionRecord"),)
    assert settings_of({**SERVER, "entities": "topic", "recordTypes": "ConfigRecord"}).only == ()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "give either bootstrap.servers"),
        ({**SERVER, "path": "/x"}, "cannot go with path"),
        ({"path": "/x", "startingOffsets": "3"}, "startingOffsets cannot go with path"),
        ({**SERVER, "files": "all"}, "files goes with path"),
        (
            {**SERVER, "startingOffset": "3"},
            "no option 'startingoffset'; did you mean 'startingOffsets'",
        ),
        (
            {**SERVER, "kafka.ssl.truststore.password": "x"},
            "no option 'kafka.ssl.truststore.password'; did you mean 'kafka.ssl.truststore",
        ),
        (
            {**SERVER, "kafka.security.protocol": "SASL_SSL"},
            "asks for SASL: give kafka.sasl.mechanism",
        ),
        (
            {
                **SERVER,
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "SCRAM-SHA-512",
                "kafka.sasl_plain_username": "ann",
            },
            "is SCRAM-SHA-512: give the user too, as kafka.sasl.jaas.config",
        ),
        ({**SERVER, "entities": "topics"}, "entities are acl, .*topic.*, not 'topics'"),
        ({**SERVER, "startingOffsets": '{"other":{"0":1}}'}, "startingOffsets is earliest"),
        ({**SERVER, "endingOffsets": '{"__cluster_metadata":{"0":-2}}'}, "endingOffsets is latest"),
        ({**SERVER, "endingOffsets": "{"}, "endingOffsets is latest"),
        (
            {**SERVER, "startingOffsets": "-1"},
            "startingOffsets is earliest, latest or an offset from 0",
        ),
        ({**SERVER, "endingOffsets": "earliest"}, "endingOffsets is latest or an offset"),
        ({**SERVER, "startingOffsets": "1", "startingTimestamp": "1"}, "not both"),
        ({**SERVER, "startingTimestamp": "today"}, "startingTimestamp is a number from 0"),
        ({**SERVER, "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is a number from 1"),
        ({**SERVER, "failOnDataLoss": "no"}, "failOnDataLoss is true or false"),
        ({**SERVER, "mode": "DROP"}, "mode is PERMISSIVE or FAILFAST"),
        ({**SERVER, "keep": "valeu"}, "keep names columns among"),
        ({**SERVER, "keep": "file"}, "file with path only"),
        ({"path": "/x", "files": "logs"}, "files is segments or snapshots or all"),
    ],
)
def test_contradicting_options_are_refused_in_a_sentence(
    options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        settings_of(options)
    assert not re.search(r"\n", str(caught.value))
