"""A secret shows nothing, wherever it ends up."""

from __future__ import annotations

import json
import pickle

import pytest

from gateway.security.secret import Secret


def test_secret_is_hidden_in_every_text() -> None:
    secret = Secret("hush")
    assert "hush" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "hush"


def test_secret_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="not written down"):
        pickle.dumps(Secret("hush"))
    with pytest.raises(TypeError):
        json.dumps(Secret("hush"))


def test_secrets_compare_by_value() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("é\ud800"), Secret("é\ud800")}) == 1
    assert Secret("x") and not Secret("")
