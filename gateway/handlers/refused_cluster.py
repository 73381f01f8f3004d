"""Changes of the cluster's features, refused in the shape of the API: UpdateFeatures 57."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.refusals import REASON, REFUSED
from gateway.handlers.table import Handler

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message


def _update_features(request: Any, context: Context) -> Message:
    from kwire.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

    # Version 2 has no results any more; clients of the older ones take the error of the whole, too.
    results = [
        UpdatableFeatureResult(feature=update.feature, error_code=REFUSED, error_message=REASON)
        for update in request.feature_updates
    ]
    return UpdateFeaturesResponse(error_code=REFUSED, error_message=REASON, results=results if context.version < 2 else [])


HANDLERS: Final = (Handler(57, "update_features", range(3), _update_features),)
