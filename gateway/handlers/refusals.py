"""What every refused change says: one error, one reason. It knows no API.

The error is POLICY_VIOLATION. It must end the matter at once, with a sentence the user sees: NOT_CONTROLLER and every
other retriable error make clients ask again until their time is over; CLUSTER_AUTHORIZATION_FAILED sends people
looking for an ACL that would not help; INVALID_REQUEST blames the client library; a closed socket says nothing at
all.
"""

from __future__ import annotations

from typing import Final

from gateway.handlers.errors import ErrorCode

REFUSED: Final = ErrorCode.POLICY_VIOLATION
REASON: Final = "This server serves the metadata log read-only; make the change on the Kafka cluster that writes the log."
