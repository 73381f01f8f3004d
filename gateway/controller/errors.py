"""The error codes that the controller answers with, and how one of its rules is broken. It knows no message that carries them."""

from __future__ import annotations

import enum


class Error(enum.IntEnum):
    """Numbers and names of ``org.apache.kafka.common.protocol.Errors``, those that the controller needs."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    INVALID_TOPIC_EXCEPTION = 17
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    UNKNOWN_TOPIC_ID = 100
    BROKER_ID_NOT_REGISTERED = 102


class ApiError(Exception):
    """Something asked cannot be done: ``error`` goes into the answer with ``message``, a sentence for the person who asked.

    None where Kafka has nothing to say beyond the error.
    """

    def __init__(self, error: Error, message: str | None = None) -> None:
        self.error = error
        self.message = message
        super().__init__(error.name, message)
