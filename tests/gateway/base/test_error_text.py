"""Error messages are cut in the middle, and short ones are left as they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.base.error_text import HEAD, TAIL, error_text, error_with_code
from gateway.controller.errors import ApiError
from kwire.protocol import ErrorCode


def test_long_name_is_cut_and_the_sentence_around_it_is_kept() -> None:
    text = error_text(f"The topic '{'n' * 32767}' does not exist.")
    assert text.startswith("The topic 'nnn") and text.endswith("nnn' does not exist.")
    assert "characters left out" in text and len(text) < 1000


def test_message_of_an_api_error_is_cut() -> None:
    message = ApiError(ErrorCode.INVALID_CONFIG, "日" * 32767).message
    assert message is not None and len(message.encode()) < 4000
    assert ApiError(ErrorCode.INVALID_CONFIG).message is None


@given(st.text(max_size=HEAD + TAIL))
def test_short_message_is_unchanged(text: str) -> None:
    assert error_text(text) is text


def test_error_code_is_named_with_its_number() -> None:
    assert error_with_code(6) == "NOT_LEADER_OR_FOLLOWER (6)"
    assert error_with_code(999) == "error code 999"
