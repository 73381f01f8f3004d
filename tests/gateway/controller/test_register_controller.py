"""ControllerRegistration: the newest registration counts, and the level must have it."""

from __future__ import annotations

from typing import Any

from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.controller.cluster import Cluster, made


def registration(incarnation: int = 1) -> Any:
    return made(
        "ControllerRegistrationRequest",
        controller_id=2,
        incarnation_id=Uuid(bytes([incarnation]) * 16),
        listeners=[
            {"name": "CONTROLLER", "host": "h", "port": 9093, "security_protocol": 0},
            {"name": "PLAINTEXT", "host": "h", "port": 65535, "security_protocol": 0},
        ],
        features=[
            {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30}
        ],
    )


def test_latest_registration_of_a_controller_counts() -> None:
    cluster = Cluster()
    for incarnation in (1, 2):
        answer = cluster.ask(registration(incarnation))
        assert (answer.error_code, answer.error_message) == (0, None)
        found = cluster.image.controllers[2]
        assert found.incarnation_id == Uuid(bytes([incarnation]) * 16)
        assert [(one.name, one.port) for one in found.end_points] == [
            ("CONTROLLER", 9093),
            ("PLAINTEXT", 65535),
        ]
        assert [one.max_supported_version for one in found.features] == [30]


def test_registration_is_refused_below_3_7() -> None:
    answer = Cluster(level=14).ask(registration())
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_controller_with_a_negative_id_is_refused() -> None:
    cluster = Cluster()
    answer = cluster.ask(registration().copy(controller_id=-1))
    assert answer.error_code == ErrorCode.INVALID_REGISTRATION
    assert not cluster.image.controllers


def test_registration_needs_cluster_action() -> None:
    cluster = Cluster()
    answer = cluster.ask(registration(), forbidden=[("CLUSTER_ACTION", "CLUSTER", "*")])
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not cluster.image.controllers
