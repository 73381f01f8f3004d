"""UpdateFeatures: upgrades that every node supports, downgrades without loss of metadata, all of a
request or nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.controller.records import Operation
from kwire.protocol import ErrorCode
from kwire.protocol.metadata_version import LEVELS_WITH_NEW_METADATA
from kwire.records.metadata import decode_metadata_record
from tests.gateway.controller.broker_cluster import CLUSTER_ID, BrokerCluster
from tests.gateway.controller.cluster import Forbidden, made, offered

UPGRADE, SAFE, UNSAFE = 1, 2, 3
Update = tuple[str, int, int]


def ask(
    it: BrokerCluster, *updates: Update, version: int = 2, forbidden: Forbidden = (), **more: Any
) -> Any:
    asked = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind}
        for name, level, kind in updates
    ]
    return it.ask(made("UpdateFeaturesRequest", feature_updates=asked, **more), version, forbidden)


def refused(it: BrokerCluster, *updates: Update) -> str:
    """The error message; nothing may have been written."""
    before, features = len(it.log), dict(it.image.features)
    answer = ask(it, *updates)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert (len(it.log), it.image.features) == (before, features)
    said: str = answer.error_message
    return said.removeprefix(
        "The update failed for all features since the following feature had an error: "
    )


def register(it: BrokerCluster, broker_id: int, **ranges: tuple[int, int]) -> None:
    named = {
        "metadata.version": (7, 30),
        **{name.replace("_", "."): levels for name, levels in ranges.items()},
    }
    features = offered(named)
    fields = {"cluster_id": CLUSTER_ID, "log_dirs": [it.directory(broker_id)], "features": features}
    assert it.ask(made("BrokerRegistrationRequest", broker_id=broker_id, **fields)).error_code == 0


def test_upgrade_changes_the_versions_of_later_records() -> None:
    it = BrokerCluster(level=16)
    answer = ask(it, ("metadata.version", 30, UPGRADE))
    assert (answer.error_code, answer.error_message, answer.results) == (0, None, [])
    assert it.image.metadata_version == 30
    register(it, 1)
    assert decode_metadata_record(it.log[-1])[1] == 4


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_have_a_result_for_each_feature(version: int) -> None:
    answer = ask(
        BrokerCluster(level=29),
        ("metadata.version", 30, UPGRADE),
        ("group.version", 1, UPGRADE),
        version=version,
    )
    told = [(one.feature, one.error_code) for one in answer.results]
    assert answer.error_code == 0 and told == (
        [("metadata.version", 0), ("group.version", 0)] if version < 2 else []
    )


def test_validate_only_writes_nothing() -> None:
    it = BrokerCluster(level=29)
    before = len(it.log)
    assert ask(it, ("metadata.version", 30, UPGRADE), validate_only=True).error_code == 0
    assert (it.image.metadata_version, len(it.log)) == (29, before)


@pytest.mark.parametrize("now", range(8, 34))
@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_downgrade_without_loss_of_metadata_is_allowed(now: int, kind: int) -> None:
    it = BrokerCluster(level=now)
    if now in LEVELS_WITH_NEW_METADATA:
        said = refused(it, ("metadata.version", now - 1, kind))
        assert said.startswith(f"Unsupported metadata.version downgrade from {now} to {now - 1}. ")
        assert ("Unsafe" in said) == (kind == UNSAFE)
    else:
        assert ask(it, ("metadata.version", now - 1, kind)).error_code == 0
        assert it.image.metadata_version == now - 1


def test_share_version_follows_an_upgrade_to_4_4_and_goes_back() -> None:
    it = BrokerCluster(level=30)
    assert it.image.features["share.version"] == 1
    assert ask(it, ("metadata.version", 33, UPGRADE), ("share.version", 2, UPGRADE)).error_code == 0
    assert (it.image.metadata_version, it.image.features["share.version"]) == (33, 2)
    assert ask(it, ("share.version", 1, SAFE)).error_code == 0
    assert "might delete metadata" in refused(it, ("metadata.version", 32, SAFE))


def test_4_4_is_refused_while_a_broker_of_4_3_is_registered() -> None:
    it = BrokerCluster((1,), level=30)
    assert refused(it, ("metadata.version", 31, UPGRADE)).endswith(
        "Broker 1 only supports versions 7-30"
    )
    assert refused(it, ("share.version", 2, UPGRADE)).endswith(
        "Broker 1 only supports versions 0-1"
    )


def test_downgrade_over_several_levels_is_allowed() -> None:
    assert ask(BrokerCluster(level=29), ("metadata.version", 23, SAFE)).error_code == 0
    assert "might delete metadata" in refused(
        BrokerCluster(level=29), ("metadata.version", 22, SAFE)
    )


def test_feature_can_be_set_to_level_zero() -> None:
    it = BrokerCluster()
    assert ask(it, ("group.version", 0, SAFE)).error_code == 0
    assert "group.version" not in it.image.features


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (("group.version", 1, 0), "does not support the given upgrade type."),
        (("group.version", 1, 4), "does not support the given upgrade type."),
        (("group.version", -1, SAFE), "A feature version cannot be less than 0."),
        (("group.version", 2, UPGRADE), "Local controller 1 only supports versions 0-1"),
        (
            ("group.version", 0, UPGRADE),
            "without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (("unknown.version", 1, UPGRADE), "Local controller 1 does not support this feature."),
        (("metadata.version", 34, UPGRADE), "Local controller 1 only supports versions 7-33"),
        (("metadata.version", 6, UNSAFE), "Local controller 1 only supports versions 7-33"),
        (("share.version", 3, UPGRADE), "Local controller 1 only supports versions 0-2"),
        (("kraft.version", 2, UPGRADE), "Local controller 1 only supports versions 0-1"),
        (("kraft.version", 1, SAFE), "Can't downgrade to a newer version."),
        (("kraft.version", 1, UPGRADE), "Invalid upgrade of kraft.version from version 0 to 1"),
    ],
)
def test_invalid_update_is_refused(update: Update, why: str) -> None:
    assert why in refused(BrokerCluster(), update)


def test_upgrade_with_a_downgrade_type_is_refused() -> None:
    assert refused(BrokerCluster(level=29), ("metadata.version", 30, SAFE)).endswith(
        "Can't downgrade to a newer version."
    )


def test_kraft_version_cannot_be_lowered_and_can_be_repeated() -> None:
    it = BrokerCluster(kraft_version=1)
    assert refused(it, ("kraft.version", 0, SAFE)).endswith(
        "Can't downgrade the version of this feature."
    )
    assert ask(it, ("kraft.version", 1, UPGRADE)).error_code == 0
    assert "kraft.version" not in it.image.features


class Quorum:
    """A quorum that its leader can upgrade, unless there is a reason against it."""

    def __init__(self, refusal: str | None = None) -> None:
        self.kraft_version = 0
        self.refusal = refusal

    def upgrade_refusal(self, version: int) -> str | None:
        return self.refusal


def decided(it: BrokerCluster, *updates: Update) -> Operation:
    """The operation that a request makes; it is not committed."""
    asked = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind}
        for name, level, kind in updates
    ]
    operation = it.decide(made("UpdateFeaturesRequest", feature_updates=asked), 2).operation
    assert operation is not None
    return operation


def test_the_quorum_is_upgraded_before_the_records_of_the_request() -> None:
    operation = decided(BrokerCluster(kraft=Quorum()), ("kraft.version", 1, UPGRADE))
    assert (operation.kraft_version, operation.offsets) == (1, 3)
    assert [record.message.NAME for record in operation.records] == ["NoOpRecord"]
    operation = decided(
        BrokerCluster(kraft=Quorum(), level=29),
        ("metadata.version", 30, UPGRADE),
        ("kraft.version", 1, UPGRADE),
    )
    assert operation.kraft_version == 1 and len(operation.batches) == 1
    assert [record.message.NAME for record in operation.records] == [
        "FeatureLevelRecord",
        "NoOpRecord",
    ]


def test_refused_kraft_upgrade_has_its_reason_and_writes_nothing() -> None:
    it = BrokerCluster(kraft=Quorum("voter 2 is not known"), level=29)
    assert refused(it, ("kraft.version", 1, UPGRADE)) == "voter 2 is not known"
    assert (
        refused(it, ("metadata.version", 30, UPGRADE), ("kraft.version", 1, UPGRADE))
        == "voter 2 is not known"
    )
    answer = ask(it, ("kraft.version", 1, UPGRADE), validate_only=True)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION and answer.error_message.endswith(
        "voter 2 is not known"
    )


def test_validate_only_does_not_upgrade_the_quorum() -> None:
    it = BrokerCluster(kraft=Quorum())
    before = len(it.log)
    assert ask(it, ("kraft.version", 1, UPGRADE), validate_only=True).error_code == 0
    assert len(it.log) == before and decided(it, ("kraft.version", 1, UPGRADE)).kraft_version == 1


def test_proposed_kraft_version_counts_before_the_quorum_has_it() -> None:
    """The quorum may not know it yet: it is asked once, and brokers must support the version."""
    it = BrokerCluster(kraft=Quorum())
    assert decided(it, ("kraft.version", 1, UPGRADE)).kraft_version == 1
    assert decided(it, ("kraft.version", 1, UPGRADE)).kraft_version is None
    assert refused(it, ("kraft.version", 0, SAFE)).endswith(
        "Can't downgrade the version of this feature."
    )
    fields = {
        "cluster_id": CLUSTER_ID,
        "log_dirs": [it.directory(1)],
        "features": offered({"metadata.version": (7, 30)}),
    }
    assert (
        it.ask(made("BrokerRegistrationRequest", broker_id=1, **fields)).error_code
        == ErrorCode.UNSUPPORTED_VERSION
    )
    it.elect()  # another leader has not asked
    assert decided(it, ("kraft.version", 1, UPGRADE)).kraft_version == 1


def test_upgraded_quorum_is_not_upgraded_again() -> None:
    operation = decided(BrokerCluster(kraft_version=1), ("kraft.version", 1, UPGRADE))
    assert (operation.kraft_version, operation.offsets) == (None, 1)


def test_every_broker_must_support_the_level() -> None:
    it = BrokerCluster(level=25, features={})
    register(it, 1, share_version=(0, 1))
    assert ask(it, ("share.version", 1, UPGRADE), validate_only=True).error_code == 0
    register(it, 2)
    assert refused(it, ("share.version", 1, UPGRADE)).endswith(
        "Broker 2 does not support this feature."
    )


def test_every_controller_must_support_the_level() -> None:
    it = BrokerCluster(nodes=(1, 2), level=25, features={})
    assert "controller 2 has not registered" in refused(it, ("share.version", 1, UPGRADE))
    narrow, wide = (offered({"share.version": (0, high)}) for high in range(2))
    it.ask(made("ControllerRegistrationRequest", controller_id=2, features=narrow))
    assert "Controller 2 does not support this feature." in refused(
        it, ("share.version", 1, UPGRADE)
    )
    it.ask(made("ControllerRegistrationRequest", controller_id=2, features=wide))
    assert ask(it, ("share.version", 1, UPGRADE)).error_code == 0


def test_update_is_made_as_a_whole_or_not_at_all() -> None:
    it = BrokerCluster(level=29)
    assert "unknown.version" in refused(
        it, ("metadata.version", 30, UPGRADE), ("unknown.version", 1, UPGRADE)
    )


def test_feature_may_depend_on_the_metadata_version_of_the_same_request() -> None:
    elr = ("eligible.leader.replicas.version", 1, UPGRADE)
    assert "depends on metadata.version level 23" in refused(BrokerCluster(level=22), elr)
    assert ask(BrokerCluster(level=22), elr, ("metadata.version", 23, UPGRADE)).error_code == 0


def test_enabling_elr_writes_one_min_isr_for_all_brokers() -> None:
    it = BrokerCluster(nodes=(1, 2), level=25)
    it.ask(
        made(
            "ControllerRegistrationRequest",
            controller_id=2,
            features=offered({"eligible.leader.replicas.version": (0, 1)}),
        )
    )
    for name, value in (("1", "2"), ("2", "3")):
        configs = [{"name": "min.insync.replicas", "config_operation": 0, "value": value}]
        resource = {"resource_type": 4, "resource_name": name, "configs": configs}
        assert (
            it.ask(made("IncrementalAlterConfigsRequest", resources=[resource]))
            .responses[0]
            .error_code
            == 0
        )
    assert ask(it, ("eligible.leader.replicas.version", 1, UPGRADE)).error_code == 0
    assert it.image.configs == {(4, ""): {"min.insync.replicas": "1"}}


def test_update_needs_alter_on_the_cluster() -> None:
    answer = ask(BrokerCluster(), ("group.version", 0, SAFE), forbidden=[("ALTER", "CLUSTER", "*")])
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
