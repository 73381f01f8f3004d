"""UpdateFeatures: raises and lowers the finalized levels of features (``FeatureControlManager``,
KIP-584, KIP-778).

A request is carried out as a whole or not at all. This node, every registered broker and every
controller must support a level. A downgrade must be requested as one, and must lose no metadata.
The quorum itself decides whether kraft.version can rise.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.base.slices import Slices
from gateway.controller.admin_api import AdminApi, Refusal, Resource, SlicedDecision
from gateway.controller.configs.config_records import MIN_ISR
from gateway.controller.errors import ApiError
from gateway.controller.features import SUPPORTED, needed_metadata_version
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.cluster.image import BROKER_RESOURCE, METADATA_VERSION
from kwire.message import Message
from kwire.messages.config_record import ConfigRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from kwire.protocol import ApiKey, ErrorCode
from kwire.protocol.features import ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION
from kwire.protocol.metadata_version import (
    LEVELS_WITH_NEW_METADATA,
    is_controller_registration_supported,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.message import Message
    from kwire.messages.update_features_request import UpdateFeaturesRequest

#: From this version on the response has one error for the whole request.
_WITHOUT_RESULTS: Final = 2
_NOT_SUPPORTED: Final = (0, 0)


class _Upgrade(enum.IntEnum):
    """``FeatureUpdate.UpgradeType``."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class _Offers(NamedTuple):
    """The ranges of features that the other nodes support, by name; ``names`` are all of these."""

    nodes: list[tuple[str, Mapping[str, tuple[int, int]]]]
    names: set[str]


def update_features(
    request: UpdateFeaturesRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return the records of all levels. Raises ApiError with the error of the first feature that
    has one.
    """
    asked = {
        one.feature: (one.max_version_level, one.upgrade_type) for one in request.feature_updates
    }
    # Dependencies are checked against the levels after the whole request, so that one request can
    # raise metadata.version and a feature that needs it (KIP-1022).
    proposed = {**context.image.features, **{name: level for name, (level, _) in asked.items()}}
    offers = yield from _offers(context)
    records: list[Message] = []
    try:
        for name, (level, upgrade) in asked.items():
            yield
            _check(name, level, upgrade, offers, context)
            # kraft.version is no FeatureLevelRecord: the quorum writes it as a control record
            # (KIP-853).
            if name != KRAFT_VERSION:
                _check_dependencies(name, level, proposed)
                records.append(FeatureLevelRecord(name=name, feature_level=level))
            elif upgrade == _Upgrade.UPGRADE:
                records.append(
                    NoOpRecord()
                )  # the response waits for it; the control records are written before it
    except ApiError as error:
        why = (
            "The update failed for all features since the following feature had an error: "
            f"{error.message}"
        )
        # One error for all: the levels are raised together, and some of them depend on others.
        raise ApiError(error.error, why) from None
    # Before the feature's own record: once it is enabled every broker must have the one value.
    if asked.get(ELIGIBLE_LEADER_REPLICAS_VERSION, (0, 0))[0] > 0:
        records = [*_safe_min_isr(context), *records]
    results = [
        UpdatableFeatureResult(feature=name, error_message=ErrorCode.NONE.name) for name in asked
    ]  # as Kafka has it
    if context.version >= _WITHOUT_RESULTS:
        results = []
    level = asked.get(KRAFT_VERSION, (0, 0))[0]
    # An upgrade to the level that the quorum has is a success without control records.
    raised = level if level > context.kraft_version else None
    return ControllerResult(
        records, UpdateFeaturesResponse(error_message=None, results=results), kraft_version=raised
    )


def _check(
    name: str, level: int, upgrade: int, offers: _Offers, context: ControllerRequestContext
) -> None:
    # The order of the checks is that of ``FeatureControlManager.updateFeature``.
    if upgrade not in tuple(_Upgrade):
        raise _refused(name, level, "The controller does not support the given upgrade type.")
    # 0 for a feature without a record.
    now = context.kraft_version if name == KRAFT_VERSION else context.image.features.get(name, 0)
    if level < 0:
        raise _refused(name, level, "A feature version cannot be less than 0.")
    # Before the direction is looked at, as in ``updateFeature``: an unsupported level is refused in
    # both.
    why = _why_unsupported(name, level, offers, context)
    if why is not None:
        raise _refused(name, level, why)
    # A mistyped level must not become a downgrade.
    if level < now and upgrade == _Upgrade.UPGRADE:
        wanted = "upgrade type to either safe or unsafe downgrade."
        raise _refused(
            name, level, f"Can't downgrade the version of this feature without setting the {wanted}"
        )
    # Nor a downgrade an upgrade.
    if level > now and upgrade != _Upgrade.UPGRADE:
        raise _refused(name, level, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION and level < now:
        _check_downgrade(now, level, upgrade)
    # The voters are in the log for good: their directory ids cannot go back to the configuration
    # (KIP-853).
    if name == KRAFT_VERSION and level < now:
        raise _refused(name, level, "Can't downgrade the version of this feature.")
    why = context.kraft.upgrade_refusal(level) if name == KRAFT_VERSION and level > now else None
    if why is not None:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, why)


def _check_downgrade(now: int, level: int, upgrade: int) -> None:
    # No level in between has introduced records or fields, so that nothing in the log would be
    # unreadable.
    if LEVELS_WITH_NEW_METADATA.isdisjoint(range(level + 1, now + 1)):
        return
    why = (
        "Unsafe metadata downgrade is not supported in this version."
        if upgrade == _Upgrade.UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata "
        "information."
    )
    raise ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported metadata.version downgrade from {now} to {level}. {why}",
    )


def _check_dependencies(name: str, level: int, proposed: Mapping[str, int]) -> None:
    """Raise ApiError where the feature at ``level`` needs a metadata.version that the cluster will
    not have.
    """
    needed = needed_metadata_version(name, level)
    # Level 0 depends on nothing: it switches a feature off.
    if name != METADATA_VERSION and level >= 1 and proposed[METADATA_VERSION] < needed:
        raise _refused(
            name,
            level,
            f"{name} could not be set to {level} because it depends on metadata.version level "
            f"{needed}",
        )


def _offers(context: ControllerRequestContext) -> Slices[_Offers]:
    """Return what the brokers and the other controllers support, once for all features."""
    registered: list[tuple[str, Any]] = [
        (f"Broker {node_id}", one) for node_id, one in sorted(context.image.brokers.items())
    ]
    # Below that level controllers do not register, and their features are not known.
    if is_controller_registration_supported(context.level):
        registered += [
            (f"Controller {node_id}", one)
            for node_id, one in sorted(context.image.controllers.items())
            # Its own features are checked first: its registration may be of an older release.
            if node_id != context.settings.node_id
        ]
    offers = _Offers([], set())
    for who, node in registered:
        ranges = {
            one.name: (one.min_supported_version, one.max_supported_version)
            for one in node.features
        }
        offers.nodes.append((who, ranges))
        offers.names.update(ranges)
        yield
    return offers


def _why_unsupported(
    name: str, level: int, offers: _Offers, context: ControllerRequestContext
) -> str | None:
    """Return the node that does not support the level, or None (``reasonNotSupported``)."""
    own = f"Local controller {context.settings.node_id}", SUPPORTED
    # Level 0 of a feature that no other node knows is supported by each of them: a request may name
    # thousands, and a cluster may have hundreds of nodes.
    others = offers.nodes if level or name in offers.names else ()
    for who, ranges in (own, *others):
        low, high = ranges.get(name, _NOT_SUPPORTED)
        if not low <= level <= high:
            return (
                f"{who} only supports versions {_written(low, high)}"
                if high
                else f"{who} does not support this feature."
            )
    # A controller without a registration may run a release that cannot read the new records.
    if is_controller_registration_supported(context.level):
        for node_id in context.settings.serving_nodes:
            if node_id != context.settings.node_id and node_id not in context.image.controllers:
                return f"controller {node_id} has not registered, and may not support this feature"
    return None


def _written(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _safe_min_isr(context: ControllerRequestContext) -> Iterator[Message]:
    """Write one ``min.insync.replicas`` for all brokers: eligibility needs it (KIP-966)."""
    if MIN_ISR not in context.image.configs.get((BROKER_RESOURCE, ""), {}):
        yield ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=MIN_ISR, value="1")
    # The values of single brokers are removed: one of them could contradict the cluster's value.
    found = (
        name
        for (kind, name), configs in context.image.configs.items()
        if kind == BROKER_RESOURCE and name and MIN_ISR in configs
    )
    for name in sorted(found):
        yield ConfigRecord(
            resource_type=BROKER_RESOURCE, resource_name=name, name=MIN_ISR, value=None
        )


def _refused(name: str, level: int, why: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {level} for feature {name}. {why}",
    )


def _refuse(request: UpdateFeaturesRequest, refusal: Refusal) -> Message:
    # Without results: clients of the versions that have results take the error of the whole.
    return UpdateFeaturesResponse(error_code=refusal.error, error_message=refusal.message)


def _resources(request: UpdateFeaturesRequest) -> Iterator[Resource]:
    for update in request.feature_updates:
        yield "FEATURE", update.feature


API: Final = AdminApi(
    key=ApiKey.UPDATE_FEATURES,
    operation="updateFeatures",
    decide=update_features,
    refuse=_refuse,
    cluster_operation="ALTER",
    resources=_resources,
)
