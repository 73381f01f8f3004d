"""Brokers of the newest Kafka release under kwire controllers at the newest levels; ``python -m
tools.broker_releases`` runs older ones.
"""

from __future__ import annotations

from tests.interop.clients import need_java
from tools.broker_releases import RELEASES, attempt


def test_brokers_of_the_newest_release_serve_at_its_newest_levels() -> None:
    need_java()
    attempt(*RELEASES[0])
