"""UpdateFeatures: the levels that the cluster finalizes, up and down (``FeatureControlManager``, KIP-584, KIP-778).

All of a request or nothing. A level must be supported by this node, every registered broker and every controller; a downgrade
must be asked for as one, and lose nothing of the metadata. kraft.version is the quorum's own: whether it can rise is asked there.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from gateway.controller.case import Case, Verdict
from gateway.controller.config_records import MIN_ISR
from gateway.controller.errors import ApiError, Error
from gateway.controller.features import ELIGIBLE_LEADER_REPLICAS, KRAFT_VERSION, NEEDED_METADATA_VERSION, SUPPORTED
from gateway.controller.records import CONTROLLER_REGISTRATION_LEVEL, LEVEL_MIN
from kwire.cluster.image import BROKER_RESOURCE, METADATA_VERSION
from kwire.messages.config_record import ConfigRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kwire.message import Message
    from kwire.messages.update_features_request import UpdateFeaturesRequest

#: From here on the answer is one for the whole request.
_WITHOUT_RESULTS: Final = 2
#: Levels of metadata.version that brought records, or fields of records, which a lower one does not know.
_LEVELS_WITH_NEW_METADATA: Final = frozenset({8, 11, 13, 14, 15, 17, 23, 30})
_NOT_SUPPORTED: Final = (0, 0)


class _Upgrade(enum.IntEnum):
    """``FeatureUpdate.UpgradeType``."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(request: UpdateFeaturesRequest, case: Case) -> Verdict:
    """Finalize what is asked. Raises ApiError, for all that was asked, with the first reason against it."""
    if not case.may_on_cluster("ALTER"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    asked = {one.feature: (one.max_version_level, one.upgrade_type) for one in request.feature_updates}
    proposed = {**case.image.features, **{name: level for name, (level, _) in asked.items()}}
    records: list[Message] = []
    try:
        for name, (level, upgrade) in asked.items():
            _check(name, level, upgrade, case)
            if name != KRAFT_VERSION:
                _check_dependencies(name, level, proposed)
                records.append(FeatureLevelRecord(name=name, feature_level=level))
            elif upgrade == _Upgrade.UPGRADE:
                records.append(NoOpRecord())  # the answer waits for it; what changes the quorum stands before it
    except ApiError as error:
        why = f"The update failed for all features since the following feature had an error: {error.message}"
        raise ApiError(error.error, why) from None
    if asked.get(ELIGIBLE_LEADER_REPLICAS, (0, 0))[0] > 0:
        records = [*_safe_min_isr(case), *records]
    results = [UpdatableFeatureResult(feature=name, error_message=Error.NONE.name) for name in asked]  # as Kafka has it
    if case.version >= _WITHOUT_RESULTS:
        results = []
    level = asked.get(KRAFT_VERSION, (0, 0))[0]
    raised = level if level > case.kraft_version else None
    return Verdict(records, UpdateFeaturesResponse(error_message=None, results=results), kraft_version=raised)


def _check(name: str, level: int, upgrade: int, case: Case) -> None:
    if upgrade not in tuple(_Upgrade):
        raise _refused(name, level, "The controller does not support the given upgrade type.")
    now = case.kraft_version if name == KRAFT_VERSION else case.image.features.get(name, 0)
    if level < 0:
        raise _refused(name, level, "A feature version cannot be less than 0.")
    why = _why_unsupported(name, level, case)
    if why is not None:
        raise _refused(name, level, why)
    if level < now and upgrade == _Upgrade.UPGRADE:
        wanted = "upgrade type to either safe or unsafe downgrade."
        raise _refused(name, level, f"Can't downgrade the version of this feature without setting the {wanted}")
    if level > now and upgrade != _Upgrade.UPGRADE:
        raise _refused(name, level, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION and level < now:
        _check_downgrade(now, level, upgrade)
    if name == KRAFT_VERSION and level < now:
        raise _refused(name, level, "Can't downgrade the version of this feature.")
    why = case.kraft.upgrade_refusal(level) if name == KRAFT_VERSION and level > now else None
    if why is not None:
        raise ApiError(Error.INVALID_UPDATE_VERSION, why)


def _check_downgrade(now: int, level: int, upgrade: int) -> None:
    if _LEVELS_WITH_NEW_METADATA.isdisjoint(range(level + 1, now + 1)):
        return
    why = (
        "Unsafe metadata downgrade is not supported in this version."
        if upgrade == _Upgrade.UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    raise ApiError(Error.INVALID_UPDATE_VERSION, f"Unsupported metadata.version downgrade from {now} to {level}. {why}")


def _check_dependencies(name: str, level: int, proposed: Mapping[str, int]) -> None:
    """Raise ApiError where the feature at ``level`` needs a metadata.version that the cluster will not have."""
    needed = NEEDED_METADATA_VERSION.get(name, LEVEL_MIN)
    if name != METADATA_VERSION and level >= 1 and proposed[METADATA_VERSION] < needed:
        raise _refused(name, level, f"{name} could not be set to {level} because it depends on metadata.version level {needed}")


def _why_unsupported(name: str, level: int, case: Case) -> str | None:
    """Who does not support the level, if anybody (``reasonNotSupported``)."""
    nodes = [(f"Local controller {case.settings.node_id}", SUPPORTED.get(name, _NOT_SUPPORTED))]
    nodes += [(f"Broker {broker_id}", _range(name, one.features)) for broker_id, one in sorted(case.image.brokers.items())]
    others = {node_id: one for node_id, one in case.image.controllers.items() if node_id != case.settings.node_id}
    if case.level >= CONTROLLER_REGISTRATION_LEVEL:
        nodes += [(f"Controller {node_id}", _range(name, one.features)) for node_id, one in sorted(others.items())]
    for who, (low, high) in nodes:
        if not low <= level <= high:
            return f"{who} only supports versions {_written(low, high)}" if high else f"{who} does not support this feature."
    if case.level >= CONTROLLER_REGISTRATION_LEVEL:
        for node_id in case.settings.serving_nodes:
            if node_id != case.settings.node_id and node_id not in others:
                return f"controller {node_id} has not registered, and may not support this feature"
    return None


def _range(name: str, features: Iterable[object]) -> tuple[int, int]:
    offered = {one.name: (one.min_supported_version, one.max_supported_version) for one in features}  # type: ignore[attr-defined]
    return offered.get(name, _NOT_SUPPORTED)


def _written(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _safe_min_isr(case: Case) -> Iterator[Message]:
    """What makes a replica eligible must be the same at all brokers, and stand in the log (KIP-966)."""
    if MIN_ISR not in case.image.configs.get((BROKER_RESOURCE, ""), {}):
        yield ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=MIN_ISR, value="1")
    for (kind, name), configs in sorted(case.image.configs.items()):
        if kind == BROKER_RESOURCE and name and MIN_ISR in configs:
            yield ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=name, name=MIN_ISR, value=None)


def _refused(name: str, level: int, why: str) -> ApiError:
    return ApiError(Error.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {why}")
