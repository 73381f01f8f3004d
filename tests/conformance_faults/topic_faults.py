"""The seeded faults of topics, their configs, ACLs and SASL, each with its rule."""

from __future__ import annotations

from typing import Any, Final

from kwire.protocol import ApiKey
from kwire.uuid import ZERO_UUID
from tests.conformance_faults.broker_changes import error, every, no_error, top_error
from tests.conformance_faults.changes import Row, faults_of


def _one_partition(answer: Any, request: Any) -> None:
    for topic in answer.topics:
        topic.partitions = list(topic.partitions)[:1]


def _found(answer: Any, request: Any) -> None:
    for topic in answer.topics:
        topic.error_code = 0


def _repeat_configs(answer: Any, request: Any) -> None:
    for result in answer.results:
        result.configs = [*result.configs, *result.configs]


TOPIC_FAULTS: Final[list[Row]] = [
    *faults_of(
        ApiKey.METADATA,
        ("one partition of three", "topics.create", _one_partition),
        ("a validation creates", "topics.validate-only", _found),
    ),
    *faults_of(
        ApiKey.CREATE_TOPICS,
        ("another number of partitions", "topics.answer-describes", every(num_partitions=1)),
        ("topics are made again", "topics.exists", no_error(36)),
        ("any name", "topics.name-invalid", no_error(17)),
        ("names of any length", "topics.name-too-long", no_error(17)),
        ("no long names", "topics.name-longest", error(17)),
        ("names of points", "topics.name-of-points", no_error(17)),
        ("empty names", "topics.name-empty", no_error(17)),
        ("names that collide", "topics.name-collides", no_error(17)),
        ("topics without partitions", "topics.no-partitions", no_error(37)),
        ("no default partitions", "topics.default-partitions", error(37)),
        ("topics without replicas", "topics.no-replicas", no_error(38)),
        ("more replicas than brokers", "topics.too-many-replicas", no_error(38)),
        ("an assignment and a number", "topics.assignment-and-number", no_error(42)),
        ("an assignment with a gap", "topics.assignment-with-gap", no_error(39)),
        ("unknown configs", "topics.config-unknown", no_error(40)),
        ("invalid configs", "topics.config-invalid", no_error(40)),
        ("a topic twice in a request", "topics.twice", no_error(42)),
        ("one error for all", "topics.errors-are-apart", no_error(37)),
    ),
    *faults_of(
        ApiKey.DELETE_TOPICS,
        ("topics are deleted twice", "topics.delete", no_error(3)),
        ("unknown topics are deleted", "topics.delete-unknown", no_error(3)),
        ("a deletion without an id", "topics.delete-by-id", every(topic_id=ZERO_UUID)),
        ("unknown ids are deleted", "topics.delete-unknown-id", no_error(100)),
    ),
    *faults_of(
        ApiKey.CREATE_PARTITIONS,
        ("topics do not grow", "topics.more-partitions", error(37)),
        ("topics shrink", "topics.fewer-partitions", no_error(37)),
        ("unknown topics grow", "topics.partitions-of-unknown-topic", no_error(3)),
    ),
]  # fmt: skip

CONFIG_FAULTS: Final[list[Row]] = [
    *faults_of(
        ApiKey.DESCRIBE_CONFIGS,
        ("defaults that were set", "configs.defaults", every(config_source=1)),
        ("settings that are defaults", "configs.set", every(config_source=5)),
        ("a validation sets", "configs.validate-only", every(value="123456")),
        ("unknown topics have configs", "configs.unknown-topic-described", no_error(3)),
        ("configs twice", "configs.only-what-was-asked", _repeat_configs),
        ("no synonyms", "configs.synonyms", every(synonyms=[])),
        ("no documentation", "configs.documentation", every(documentation=None)),
    ),
    *faults_of(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ("configs are not deleted", "configs.delete", error(40)),
        ("nothing is appended", "configs.append", error(40)),
        ("numbers are appended to", "configs.append-to-number", no_error(40)),
        ("unknown configs are set", "configs.unknown-config", no_error(40)),
        ("invalid values are set", "configs.invalid-value", no_error(40)),
        ("unknown topics are configured", "configs.unknown-topic", no_error(3)),
    ),
    *faults_of(
        ApiKey.DESCRIBE_ACLS,
        ("an error of no authorizer", "acls.without-authorizer", top_error(3)),
    ),
    *faults_of(
        ApiKey.SASL_HANDSHAKE,
        ("SASL where none is", "sasl.no-sasl-here", no_error(34)),
    ),
    *faults_of(
        ApiKey.SASL_AUTHENTICATE,
        ("any client is a user", "sasl.no-authenticate-here", no_error(34)),
    ),
]  # fmt: skip
