"""The error codes against those seen in captured traffic and in the rest of the house."""

from __future__ import annotations

from gateway.handlers.errors import ErrorCode


def test_codes_are_one_run_of_numbers_from_minus_one() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))


def test_none_is_false() -> None:
    assert not ErrorCode.NONE
    assert all(code for code in ErrorCode if code is not ErrorCode.NONE)
