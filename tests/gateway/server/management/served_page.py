"""The page over a log directory, for tests of the management port."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from gateway.server.logging.logs import Reports
from gateway.server.management.page_api import PageApi
from gateway.server.management.page_log import PageLog
from gateway.server.quorum.quorum_status import QuorumStatus
from gateway.server.sources.metadata_source import SAMPLE
from tests.gateway.server.watched import facts
from tests.gateway.views.view_reading import opened


def page(directory: Path = SAMPLE, quorum: QuorumStatus | None = None) -> PageApi:
    """The page over the log of a directory, which is not followed, with this node's status in a
    quorum.
    """
    log = opened(directory)
    return PageApi(facts(cast(Any, log), quorum), PageLog(log, Reports()), None)
