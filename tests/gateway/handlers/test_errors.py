"""The error codes against those seen in captured traffic and in the rest of the house."""

from __future__ import annotations

from gateway.handlers.errors import ErrorCode, error_name


def test_codes_are_one_run_of_numbers_from_minus_one() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))


def test_none_is_false() -> None:
    assert not ErrorCode.NONE
    assert all(code for code in ErrorCode if code is not ErrorCode.NONE)


def test_a_code_that_nobody_knows_yet_has_its_number_for_a_name() -> None:
    assert (error_name(-1), error_name(58), error_name(30_000)) == ("UNKNOWN_SERVER_ERROR", "SASL_AUTHENTICATION_FAILED", "30000")
