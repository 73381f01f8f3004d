"""Defines the error and text of every refused change. It knows no API.

The error is POLICY_VIOLATION, which ends the request at once and shows its text to the user.
NOT_CONTROLLER and other retriable errors make clients retry until their timeout;
CLUSTER_AUTHORIZATION_FAILED suggests a missing ACL; INVALID_REQUEST blames the client library; a
closed socket says nothing.
"""

from __future__ import annotations

from typing import Final

from kwire.protocol import ErrorCode

REFUSED: Final = ErrorCode.POLICY_VIOLATION
REASON: Final = (
    "This server serves the metadata log read-only; "
    "make the change on the Kafka cluster that writes the log."
)
