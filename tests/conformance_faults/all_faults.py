"""Every seeded fault of a proxy, with the rule that is named for it."""

from __future__ import annotations

from typing import Final

from tests.conformance_faults.changes import Row
from tests.conformance_faults.connection_faults import CONNECTION_FAULTS, SASL_FAULTS
from tests.conformance_faults.controller_faults import (
    BROKER_FAULTS,
    CONTROLLER_FAULTS,
    VOTER_FAULTS,
)
from tests.conformance_faults.faults import FAULTS
from tests.conformance_faults.group_faults import GROUP_FAULTS, OFFSET_FAULTS
from tests.conformance_faults.kafka_faults import (
    ACL_FAULTS,
    PRODUCE_FAULTS,
    SESSION_FAULTS,
    TRANSACTION_FAULTS,
    VERSION_FAULTS,
)
from tests.conformance_faults.quorum_faults import ELECTION_FAULTS, QUORUM_FAULTS
from tests.conformance_faults.quorum_state_faults import DESCRIBE_FAULTS, SNAPSHOT_FAULTS
from tests.conformance_faults.read_faults import (
    FETCH_FAULTS,
    LIST_OFFSETS_FAULTS,
    METADATA_FAULTS,
)
from tests.conformance_faults.topic_faults import CONFIG_FAULTS, TOPIC_FAULTS

PROXY_FAULTS: Final[tuple[Row, ...]] = (
    *FAULTS, *CONNECTION_FAULTS, *SASL_FAULTS, *METADATA_FAULTS, *LIST_OFFSETS_FAULTS,
    *FETCH_FAULTS, *SESSION_FAULTS, *GROUP_FAULTS, *OFFSET_FAULTS, *PRODUCE_FAULTS,
    *TRANSACTION_FAULTS, *TOPIC_FAULTS, *CONFIG_FAULTS, *ACL_FAULTS, *VERSION_FAULTS,
    *QUORUM_FAULTS, *ELECTION_FAULTS, *DESCRIBE_FAULTS, *SNAPSHOT_FAULTS, *CONTROLLER_FAULTS,
    *BROKER_FAULTS, *VOTER_FAULTS,
)  # fmt: skip
