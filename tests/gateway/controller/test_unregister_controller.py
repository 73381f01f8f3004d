"""UnregisterController removes a controller's registration, from metadata.version 4.4-IV2 on."""

from __future__ import annotations

import pytest

from kwire.protocol import ErrorCode
from kwire.records.metadata import decode_metadata_record
from tests.gateway.controller.cluster import Cluster, made
from tests.gateway.controller.test_register_controller import registration

UNREGISTER = made("UnregisterControllerRequest", controller_id=2)


def test_registered_controller_is_removed_by_one_record() -> None:
    cluster = Cluster(level=33)
    cluster.ask(registration())
    before = len(cluster.log)
    answer = cluster.ask(UNREGISTER)
    assert (answer.error_code, answer.error_message) == (0, "")  # as Kafka sends it
    assert 2 not in cluster.image.controllers
    (record,) = (decode_metadata_record(value) for value in cluster.log[before:])
    assert (record[0], record[1]) == ("UNREGISTER_CONTROLLER_RECORD", 0)


def test_controller_that_still_runs_registers_again() -> None:
    cluster = Cluster(level=33)
    cluster.ask(registration())
    cluster.ask(UNREGISTER)
    assert cluster.ask(registration()).error_code == 0
    assert 2 in cluster.image.controllers


@pytest.mark.parametrize(
    ("level", "controller_id", "error", "why"),
    [
        (
            33,
            3,
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            "Controller ID 3 is not currently registered.",
        ),
        (
            33,
            1,
            ErrorCode.INVALID_REQUEST,
            "Controller cannot unregister itself while it is active.",
        ),
        (
            32,
            1,
            ErrorCode.INVALID_REQUEST,
            "Controller cannot unregister itself while it is active.",
        ),
        (
            32,
            2,
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        ),
    ],
)
def test_refusal_tells_why_and_writes_nothing(
    level: int, controller_id: int, error: ErrorCode, why: str
) -> None:
    cluster = Cluster(level=level)
    cluster.ask(registration())
    before = len(cluster.log)
    answer = cluster.ask(made("UnregisterControllerRequest", controller_id=controller_id))
    assert (answer.error_code, answer.error_message, len(cluster.log)) == (error, why, before)


def test_principal_without_alter_on_the_cluster_is_refused() -> None:
    cluster = Cluster(level=33)
    cluster.ask(registration())
    answer = cluster.ask(UNREGISTER, forbidden=[("ALTER", "CLUSTER", "*")])
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert 2 in cluster.image.controllers
