"""Defines the error and text of a refused change, if this server only reads the log.

The error is POLICY_VIOLATION: clients do not retry, and show the text to their user. NOT_CONTROLLER
and other retriable errors would make them retry until their timeout; CLUSTER_AUTHORIZATION_FAILED
suggests a missing ACL, INVALID_REQUEST a fault of the client. It knows no API.
"""

from __future__ import annotations

from typing import Final

from kwire.protocol import ErrorCode

REFUSED: Final = ErrorCode.POLICY_VIOLATION
REASON: Final = (
    "This server serves the metadata log read-only; "
    "make the change on the Kafka cluster that writes the log."
)
