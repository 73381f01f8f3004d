"""The error codes against those seen in captured traffic and in the rest of the house."""

from __future__ import annotations

from gateway.handlers.errors import RETRIABLE, ErrorCode


def test_codes_are_one_run_of_numbers_from_minus_one() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))


def test_none_is_false() -> None:
    assert not ErrorCode.NONE
    assert all(code for code in ErrorCode if code is not ErrorCode.NONE)


def test_what_clients_repeat_and_what_they_report() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable and ErrorCode.OFFSET_NOT_AVAILABLE.retriable
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.retriable
    assert not ErrorCode.OFFSET_OUT_OF_RANGE.retriable and not ErrorCode.POLICY_VIOLATION.retriable
    assert not ErrorCode.NONE.retriable
    assert len(RETRIABLE) == 32
