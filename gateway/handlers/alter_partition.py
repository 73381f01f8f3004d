"""AlterPartition (key 56): a leader tells who is in sync. On controller listeners only.

Versions 2 and 3 are those of Kafka 4. Two older forms of the key are served to who asks for them and not advertised, as what a
broker of Kafka 2.7 to 3.1 means by version 0 is a third one: AlterIsr as KIP-497's text has it (0), and AlterPartition with
topics by name (1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.controller_requests import ask_controller
from kwire.messages.kip.kip497.alter_isr_request import AlterIsrRequest
from kwire.messages.old.alter_partition_request import AlterPartitionRequest as OldAlterPartitionRequest

if TYPE_CHECKING:
    from gateway.handlers.context import Context, Later
    from kwire.message import Message
    from kwire.messages.alter_partition_request import AlterPartitionRequest

API_KEY: Final = 56
VERSIONS: Final = range(2, 4)
OLD_REQUESTS: Final = {0: AlterIsrRequest, 1: OldAlterPartitionRequest}


def handle(request: AlterPartitionRequest | OldAlterPartitionRequest | AlterIsrRequest, context: Context) -> Message | Later:
    """Each partition as it is then, or why it is not; of AlterIsr the latter alone."""
    return ask_controller(request, context)
