"""The bucket of changes of partitions."""

from __future__ import annotations

from gateway.broker.quotas.samples import QuotaSettings
from gateway.broker.quotas.token_bucket import TokenBucket

SETTINGS = QuotaSettings(samples=10, window_ms=1000)


def test_bucket_is_full_at_first_and_never_fuller() -> None:
    bucket = TokenBucket(SETTINGS)
    assert bucket.tokens(5, 0) == 50
    assert bucket.tokens(5, 100_000) == 50


def test_tokens_come_back_at_the_rate_of_the_quota() -> None:
    bucket = TokenBucket(SETTINGS)
    assert bucket.take(80, 5, 0) == -30
    assert bucket.tokens(5, 4_000) == -10
    assert bucket.tokens(5, 10_000) == 20


def test_lower_quota_takes_tokens_above_its_burst() -> None:
    bucket = TokenBucket(SETTINGS)
    bucket.tokens(5, 0)
    assert bucket.tokens(1, 0) == 10
